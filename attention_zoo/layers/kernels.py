"""Kernels and biases of layers: Keras's keywords, LoRA and int8."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import keras
from keras import ops

from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.quantization import (
    KernelQuantizer,
    is_quantized,
    warn_of_float_weights,
)
from attention_zoo.ops import whole_number
from attention_zoo.typing import Shape, Tensor

KERNEL_ARGUMENTS = (
    "kernel_initializer",
    "bias_initializer",
    "kernel_regularizer",
    "bias_regularizer",
    "kernel_constraint",
    "bias_constraint",
)
LORA_ARGUMENTS = ("lora_rank", "lora_alpha")
GETTERS = {
    "initializer": keras.initializers.get,
    "regularizer": keras.regularizers.get,
    "constraint": keras.constraints.get,
}


class KernelLayer(BaseLayer):
    """Base class of layers with kernels and biases, with the keywords of `keras.layers.Dense`.

    The keywords apply to all kernels and biases that the layer creates, also in parts that it
    creates from a name, such as a score. A part that is passed as an instance has its own. A
    subclass creates its weights by `self.kernel = self.add_kernel("kernel", shape)` and
    `add_bias`, and its parts with `part_arguments`.

    Args:
        kernel_initializer: initializer of the kernels; it gets the shape (inputs, outputs). None
            for the default of each kernel.
        bias_initializer: initializer of the biases.
        kernel_regularizer, kernel_constraint, bias_regularizer, bias_constraint: as in Dense.
        lora_rank, lora_alpha: as in Dense; see `enable_lora`.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: when the layer is built, if a keyword has no effect, such as `bias_regularizer`
            of a layer without biases.
    """

    is_part: ClassVar[bool] = False
    """Whether the layer is a part of another layer, so that a keyword may apply elsewhere."""

    def __init__(self, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name, None) for name in KERNEL_ARGUMENTS}
        rank, alpha = (kwargs.pop(name, None) for name in LORA_ARGUMENTS)
        super().__init__(**kwargs)
        self.lora_rank = None if rank is None else whole_number("lora_rank", rank)
        self.lora_alpha = alpha
        for name, value in given.items():
            setattr(self, name, GETTERS[name.rpartition("_")[2]](value))
        self.lora_enabled = False
        self._has_bias = False
        self._kernels: dict[str, int] = {}  # number of input axes by name

    def get_config(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in (*KERNEL_ARGUMENTS, *LORA_ARGUMENTS)}
        given = {name: x for name, x in values.items() if x is not None}
        return {**super().get_config(), **keras.saving.serialize_keras_object(given)}

    @property
    def part_arguments(self) -> dict[str, Any]:
        """Arguments of the layer that its parts get too: the dtype and the keywords."""
        given = {name: getattr(self, name) for name in KERNEL_ARGUMENTS}
        given = {name: _copy(x) for name, x in given.items() if x is not None}
        return {"dtype": self.dtype_policy, **given}

    def add_kernel(
        self,
        name: str,
        shape: Shape,
        initializer: Any = "glorot_uniform",
        num_inputs: int = 1,
    ) -> Any:
        """Add a kernel; assign it to the attribute `name`.

        Args:
            name: name of the weight.
            shape: input axes first.
            initializer: used without `kernel_initializer`.
            num_inputs: number of input axes.
        """
        if self.kernel_initializer is not None:
            initializer = make_matrix_initializer(_copy(self.kernel_initializer), num_inputs)
        kernel = self.add_weight(
            shape=shape,
            initializer=initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name=name,
        )
        if not self._kernels:
            quantize = self._quantize_and_warn
            self.kernel_quantizer = KernelQuantizer(quantize, dtype=self.dtype_policy)
        self._kernels[name] = num_inputs
        return kernel

    def add_bias(self, name: str, shape: Shape, initializer: Any = "zeros") -> Any:
        """Add a bias; `initializer` is used without `bias_initializer`."""
        given = self.bias_initializer
        self._has_bias = True
        return self.add_weight(
            shape=shape,
            initializer=initializer if given is None else _copy(given),
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
            name=name,
        )

    def _post_build(self) -> None:
        """Check that every keyword applies to a weight, and enable LoRA if the config has it."""
        super()._post_build()
        if not self.is_part:
            self._refuse_unused_keywords()
        if self.lora_rank is not None and not self.lora_enabled:
            self.enable_lora(self.lora_rank, self.lora_alpha)

    def _refuse_unused_keywords(self) -> None:
        """Raise ValueError if a keyword applies to no weight of the layer or of its parts."""
        layers = self._flatten_layers()
        for name in KERNEL_ARGUMENTS:
            value, kind = getattr(self, name), name.partition("_")[0]
            if value is not None and not any(_uses(layer, name, value) for layer in layers):
                raise ValueError(
                    f"{name} has no effect: {type(self).__name__} {self.name!r} has no {kind} of "
                    f"its own. Remove the argument, or pass it to the part that has the {kind}."
                )

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:
        """Freeze the kernels and train low-rank updates of them (LoRA), as Keras's Dense does.

        A kernel W, a matrix (inputs, outputs), becomes `W + (lora_alpha / rank) A B` with
        the weights A, `<name>_lora_a`, and B, `<name>_lora_b`. Vectors stay trainable. The kernels
        of sublayers, Keras's Dense included, get updates too. Saving stores the sum; a loaded
        layer continues with B = 0.

        Args:
            rank: number of columns of A.
            lora_alpha: factor of the update; `rank` when None.
            a_initializer, b_initializer: initializers of A and B.

        Raises:
            ValueError: the layer is not built, has LoRA, is quantized, or has no kernel matrix; or
                a kernel has a constraint.

        Reference: Hu et al. 2021, arXiv 2106.09685, section 4.1, equation 3: W_0 is W transposed.
        """
        rank = whole_number("rank", rank)
        if not self.built:
            raise ValueError(f"{self.name!r} is not built; call it once before enable_lora")
        if self.lora_enabled:
            raise ValueError(f"LoRA is already enabled in {self.name!r}; enable it only once")
        options = (rank, rank if lora_alpha is None else lora_alpha, a_initializer, b_initializer)
        adapted = 0
        for layer in self._flatten_layers():
            if isinstance(layer, KernelLayer):
                adapted += layer._add_lora(*options)
            elif hasattr(layer, "kernel") and not getattr(layer, "lora_enabled", True):
                layer.enable_lora(*options)
                adapted += 1
        if not adapted:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} has no kernel matrix for LoRA;"
                " enable it on a layer with kernels"
            )
        self.lora_rank, self.lora_alpha, self.lora_enabled = rank, options[1], True

    def _add_lora(self, rank: int, alpha: float, a_initializer: Any, b_initializer: Any) -> int:
        """Add LoRA to the kernels of this layer; return how many have it now."""
        kernels = {name: (getattr(self, name), inputs) for name, inputs in self._kernels.items()}
        shapes = {name: get_matrix_shape(kernel.shape, n) for name, (kernel, n) in kernels.items()}
        names = [name for name in kernels if min(shapes[name]) > 1]
        if self.lora_enabled or not names:
            return 0
        if self.kernel_constraint is not None or is_quantized(self.kernel_quantizer):
            raise ValueError(
                "enable_lora does not support constrained or int8 kernels, got"
                f" {self.name!r}; call it before quantize, and without kernel_constraint"
            )
        self._tracker.unlock()
        for name in names:
            options = {"dtype": "float32", "regularizer": self.kernel_regularizer}
            sides = {"a": (shapes[name][0], rank), "b": (rank, shapes[name][1])}
            for side, start in (("a", a_initializer), ("b", b_initializer)):
                full_name = f"{name}_lora_{side}"
                weight = self.add_weight(sides[side], start, name=full_name, **options)
                setattr(self, full_name, weight)
            self._store_kernel(name, self.__dict__.pop(name))
            kernels[name][0].trainable = False
        self._tracker.lock()
        self.lora_rank, self.lora_alpha, self.lora_enabled = rank, alpha, True
        return len(names)

    def _store_kernel(self, name: str, kernel: Any) -> None:
        """Store a kernel with LoRA, or quantized; `__getattr__` returns its effective value."""
        setattr(self, f"_{name}", kernel)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor:
            """Return the effective value of a kernel with LoRA, or quantized."""
            stored = vars(self)
            if name not in stored.get("_kernels", ()) or f"_{name}" not in stored:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            kernel, scale = stored[f"_{name}"], stored.get(f"{name}_scale")
            if scale is not None:
                matrix = ops.reshape(kernel, get_matrix_shape(kernel.shape, self._kernels[name]))
                return ops.reshape(ops.cast(matrix, scale.dtype) / scale, kernel.shape)
            update = ops.matmul(stored[f"{name}_lora_a"], stored[f"{name}_lora_b"])
            update = ops.reshape(self.lora_alpha / self.lora_rank * update, kernel.shape)
            return ops.cast(kernel + update, ops.convert_to_tensor(kernel).dtype)

    def _quantize_and_warn(self, mode: Any) -> None:
        """Quantize the kernels; warn of matrices that stay in floating point."""
        self.quantize_kernels(mode)
        warn_of_float_weights(self, mode, [self])

    def quantize_kernels(self, mode: str) -> None:
        """Store the kernels as int8, with a scale for each output; LoRA is merged first.

        Modes other than "int8" leave them unchanged.
        """
        if mode != "int8":
            return
        self._tracker.unlock()
        for name, num_inputs in self._kernels.items():
            kernel = ops.convert_to_tensor(getattr(self, name))
            matrix = ops.reshape(kernel, get_matrix_shape(kernel.shape, num_inputs))
            values, scale = keras.quantizers.abs_max_quantize(matrix, axis=0)
            for attribute in (name, f"_{name}", f"{name}_lora_a", f"{name}_lora_b"):
                if attribute in vars(self):
                    self._untrack_variable(vars(self)[attribute])
                    # `del` would run a full garbage collection for each kernel.
                    super(keras.layers.Layer, self).__delattr__(attribute)
            options = {"trainable": False, "autocast": False}
            stored = self.add_weight(kernel.shape, "zeros", "int8", name=name, **options)
            stored.assign(ops.reshape(values, kernel.shape))
            self._store_kernel(name, stored)
            variable = self.add_weight(scale.shape[1:], "ones", name=f"{name}_scale", **options)
            variable.assign(scale[0])
            setattr(self, f"{name}_scale", variable)
        self._tracker.lock()
        self.lora_rank, self.lora_alpha, self.lora_enabled = None, None, False

    def save_own_variables(self, store: Any) -> None:
        """Save the weights; a kernel with LoRA is saved as the sum."""
        merged = {id(vars(self)[f"_{name}"]): name for name in self._list_lora()}
        for number, weight in enumerate(self._stored_variables()):
            name = merged.get(id(weight))
            store[str(number)] = weight if name is None else getattr(self, name)

    def load_own_variables(self, store: Any) -> None:
        """Load the weights; with LoRA, set B to 0, because saved kernels include the update."""
        weights = self._stored_variables()
        if len(store.keys()) != len(weights):
            self._check_load_own_variables(store)  # raises
        for number, weight in enumerate(weights):
            weight.assign(store[str(number)])
        for name in self._list_lora():
            side = getattr(self, f"{name}_lora_b")
            side.assign(ops.zeros(side.shape))

    def _list_lora(self) -> list[str]:
        """Return the names of the kernels with LoRA."""
        return [name for name in self._kernels if f"{name}_lora_a" in vars(self)]

    def _stored_variables(self) -> list[Any]:
        """Return the weights that are saved: all but those of LoRA."""
        lora = {id(getattr(self, f"{name}_lora_{x}")) for name in self._list_lora() for x in "ab"}
        weights = self._trainable_variables + self._non_trainable_variables
        return [weight for weight in weights if id(weight) not in lora]


def select_part_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return those of a constructor's arguments that the parts of the layer get too."""
    return {name: kwargs[name] for name in ("dtype", *KERNEL_ARGUMENTS) if name in kwargs}


def make_matrix_initializer(initializer: Any, num_inputs: int) -> Any:
    """Return an initializer that gets the shape of a kernel as (inputs, outputs).

    Keras's initializers would take a kernel of rank 3 for a convolution.
    """

    def initialize(shape: Shape, dtype: Any = None) -> Tensor:
        return ops.reshape(initializer(get_matrix_shape(shape, num_inputs), dtype), shape)

    return initialize


def get_matrix_shape(shape: Shape, num_inputs: int) -> tuple[int, int]:
    """Return the shape (inputs, outputs) of a kernel whose first axes are the input axes."""
    return math.prod(shape[:num_inputs]), math.prod(shape[num_inputs:])


def _copy(value: Any) -> Any:
    """Return a copy of an initializer, which returns the same random values at every call."""
    return value.clone() if isinstance(value, keras.initializers.Initializer) else value


def _uses(layer: Any, name: str, value: Any) -> bool:
    """Return whether the keyword applies to a weight of the layer itself, not of a sublayer.

    Values are compared by config, because parts have copies of them.
    """
    kind, own = name.partition("_")[0], getattr(layer, name, None)
    if isinstance(layer, KernelLayer):
        has_weight = bool(layer._kernels) if kind == "kernel" else layer._has_bias
    else:
        has_weight = getattr(layer, kind, None) is not None
    if not has_weight or type(own) is not type(value):
        return False
    serialize = keras.saving.serialize_keras_object
    return own is value or bool(serialize(own) == serialize(value))
