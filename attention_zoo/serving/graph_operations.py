"""Operations that the graph of a served model may have.

A SavedModel is a program: its operations can read and write files, open connections and call
Python functions. This check refuses such a graph before it is loaded. It is a second line of
defence. The first is to serve trusted models only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

STATEFUL = frozenset(
    [
        # control flow and checks
        *("Assert", "Case", "CheckNumerics", "CheckNumericsV2", "If", "While"),
        *("PartitionedCall", "StatefulPartitionedCall"),
        # variables
        *("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "DisableCopyOnRead"),
        *("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarHandleOp"),
        *("VarIsInitializedOp", "VariableShape", "DestroyResourceOp"),
        # tables and arrays
        *("AnonymousHashTable", "HashTableV2", "InitializeTableV2", "LookupTableExportV2"),
        *("LookupTableFindV2", "LookupTableImportV2", "LookupTableInsertV2", "LookupTableSizeV2"),
        *("MutableHashTableV2", "AnonymousMutableHashTable", "Empty"),
        *("TensorArrayV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGatherV3"),
        *("TensorArrayScatterV3", "TensorArraySizeV3", "TensorArrayConcatV3"),
        # random numbers
        *("Multinomial", "RandomGamma", "RandomPoissonV2", "RandomShuffle", "RandomUniform"),
        *("RandomStandardNormal", "RandomUniformInt", "TruncatedNormal", "RngReadAndSkip"),
        *("StatefulStandardNormalV2", "StatefulUniform", "StatefulUniformFullInt"),
        *("StatefulUniformInt", "StatefulTruncatedNormal", "StatelessRandomGetAlg"),
    ]
)
"""Operations with a state that have no access to anything outside of the model."""

IN_MEMORY_DATASETS = frozenset(
    [
        *("BatchDatasetV2", "IgnoreErrorsDataset", "MapDataset", "OptionsDataset"),
        *("ParallelMapDatasetV2", "ReduceDataset", "TensorSliceDataset"),
    ]
)
"""Operations of datasets of tensors, which exports use to read images."""

SAVERS = frozenset(["MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"])
"""Operations of the functions that save and restore variables. Every SavedModel has them, but
loading and serving does not run them."""

_ACCESS = re.compile(
    "Barrier|BatchFunction|Checkpoint|Collective|CopyHost|CopyToMesh|Dataset|Debug|Dump|File"
    "|Iterator|Infeed|Library|Outfeed|Proto|PyFunc|Queue|Reader|Recv|Remote|Restore|Rpc|Save|Send"
    "|Summary|TPU|Tpu|Xla|^_|^(Abort|Copy|GenerateVocabRemapping|HostConst|ImmutableConst)$"
)
"""Names of operations, also of some without a state, that access files, devices, Python or other
processes."""


class RefusedOperation(NamedTuple):
    """An operation that a served graph must not have.

    Attributes:
        name: type of the operation, such as "ReadFile".
        function: name of the function that has it, "" for the main graph.
    """

    name: str
    function: str


def find_refused_operation(meta_graph: Any) -> RefusedOperation | None:
    """Return the first refused operation of a graph; None if all are permitted.

    Args:
        meta_graph: a `MetaGraphDef` of a SavedModel of TensorFlow 2.
    """
    functions = {f.signature.name: f.node_def for f in meta_graph.graph_def.library.function}
    for function, nodes in [("", meta_graph.graph_def.node), *functions.items()]:
        for node in nodes:
            if not (is_permitted(node.op) or node.op in SAVERS or node.op in functions):
                return RefusedOperation(node.op, function)
    for function, nodes in _find_served_functions(meta_graph, functions):
        for node in nodes:
            if node.op in SAVERS:
                return RefusedOperation(node.op, function)
    return None


def is_permitted(operation: str) -> bool:
    """Return whether an operation has no access to anything outside of the model.

    Operations that are unknown to TensorFlow are not permitted.
    """
    from tensorflow.python.framework import op_def_registry

    if operation in STATEFUL | IN_MEMORY_DATASETS:
        return True
    definition = op_def_registry.get(operation)
    return definition is not None and not definition.is_stateful and not _ACCESS.search(operation)


def _find_served_functions(meta_graph: Any, functions: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and nodes of all functions but those that only the saver calls.

    The main graph, "", is yielded without the saver's calls, unless a signature returns them.
    Objects of the model call functions by name.
    """
    saver = meta_graph.saver_def
    of_saver = {saver.save_tensor_name.split(":")[0], saver.restore_op_name.split(":")[0]}
    returned = {
        tensor.name.split(":")[0]
        for signature in meta_graph.signature_def.values()
        for tensor in signature.outputs.values()
    }
    nodes = [n for n in meta_graph.graph_def.node if n.name not in of_saver - returned]
    returned |= {name.lstrip("^").split(":")[0] for node in nodes for name in node.input}
    nodes += [n for n in meta_graph.graph_def.node if n.name in of_saver & returned]
    yield "", nodes
    objects = meta_graph.object_graph_def
    waiting = [*objects.concrete_functions, *_list_calls(nodes, functions)]
    for entry in objects.nodes:
        waiting += entry.function.concrete_functions
        waiting.append(entry.bare_concrete_function.concrete_function_name)
        waiting.append(entry.captured_tensor.concrete_function)
    visited: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in visited and name in functions:
            visited.add(name)
            yield name, functions[name]
            waiting += _list_calls(functions[name], functions)


def _list_calls(nodes: Any, functions: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the functions that operations call."""
    for node in nodes:
        if node.op in functions:
            yield node.op
        yield from _list_functions(node.attr.values())


def _list_functions(values: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the functions in attribute values, and in their own attributes."""
    for value in values:
        for function in [value.func, *value.list.func]:
            if function.name:
                yield function.name
                yield from _list_functions(function.attr.values())
