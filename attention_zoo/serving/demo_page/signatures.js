// The inputs of signatures in the metadata of TensorFlow Serving's REST API.

const VALUE_FIELDS = /^(int|long|float|double|half|bool|uint\d*|int64|string)_val$/;

// The first value of a TensorProto in JSON; int64 are strings.
function readDefault(tensor) {
  for (const [name, values] of Object.entries(tensor)) {
    if (VALUE_FIELDS.test(name) && values.length) {
      return name === "string_val" ? "" : typeof values[0] === "boolean" ? values[0] : Number(values[0]);
    }
  }
  return undefined;
}

// Return the inputs of each signature: `dtype` such as "int32", `shape` with -1 for unknown sizes,
// `isOptional`, and the `initial` value of a scalar option.
export function readSignatures(metadata) {
  const definitions = Object.entries(metadata.signature_def.signature_def);
  return Object.fromEntries(definitions.map(([name, { inputs, defaults = {} }]) => [name,
    Object.fromEntries(Object.entries(inputs).map(([key, { dtype, tensor_shape: shape }]) => [key, {
      dtype: dtype.replace("DT_", "").toLowerCase(),
      shape: (shape?.dim ?? []).map(({ size }) => Number(size)),
      isOptional: key in defaults,
      initial: key in defaults ? readDefault(defaults[key]) : undefined,
    }]))]));
}
