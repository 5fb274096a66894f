"""Bookkeeping of hypotheses: selection, history of steps, and backtracking along parents."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from attention_zoo.ops.buffers import append, empty_buffer, replace_row


def take_hypotheses(x: Any, index: Any) -> Any:
    """Gather `x (B, M, ...)` at `index (B, N)` along axis 1 -> `(B, N, ...)`, in one gather."""
    if x.shape[1] == 1 and index.shape[1] == 1:
        return x
    batch, width, *rest = ops.shape(x)
    rows = ops.arange(batch, dtype="int32")[:, None] * width + index
    taken = ops.take(ops.reshape(x, (batch * width, *rest)), rows, axis=0)
    return ops.reshape(taken, (*ops.shape(index), *rest))  # JAX drops the shape of an empty batch


def take_first(x: Any, count: int) -> Any:
    """Return the first `count` of `x (B, N, ...)` along axis 1; all if there are no more."""
    return x if x.shape[1] <= count else x[:, :count]


class Choice(NamedTuple):
    """The continuations that a search method selects at a step.

    Attributes:
        tokens: `(B, N)` int32.
        parents: `(B, N)` int32, the beam index of the hypothesis that each token continues.
        log_probs: `(B, N)` float32, cumulative log probability; -inf for an invalid hypothesis.
    """

    tokens: Any
    parents: Any
    log_probs: Any

    def take_first(self, count: int) -> Choice:
        """Return the first `count` continuations of each source."""
        return Choice(*(take_first(x, count) for x in self))


class History(NamedTuple):
    """Records of all steps, each in the beam order of its step; records are never reordered.

    L is the number of steps so far, or under XLA their limit (see `ops.buffers`).

    Attributes:
        tokens: `(L, B, N)`, the token of each hypothesis at each step.
        parents: `(L, B, N)`, the beam index of its parent at the previous step.
        log_probs: `(L, B, N)` float32, cumulative log probability up to this step.
        attention: `(L, B, N, S)`, the attention weights of the step, or `()`.
    """

    tokens: Any
    parents: Any
    log_probs: Any
    attention: Any

    @classmethod
    def empty(cls, steps: Any, choice: Choice, attention: Any) -> History:
        """Return no records, for `steps` of the shapes of `choice` and `attention (B, N, S)`."""

        def allocate(x: Any) -> Any:
            return empty_buffer((steps, *ops.shape(x)), 0, x.dtype)

        tokens, parents, log_probs = map(allocate, choice)
        return cls(tokens, parents, log_probs, () if attention is None else allocate(attention))

    def record(self, step: Any, choice: Choice, attention: Any) -> History:
        """Return the history with the record of `step` appended."""

        def put(records: Any, x: Any) -> Any:
            return append(records, x[None], step, axis=0)

        tokens, parents, log_probs = map(put, self[:3], choice)
        attention_records = () if attention is None else put(self.attention, attention)
        return History(tokens, parents, log_probs, attention_records)

    def trace_back(self, steps: Any, slots: Any, lengths: Any) -> Any:
        """Trace hypotheses back along their parents to their beam index in each record.

        Args:
            steps: scalar, the number of records filled in.
            slots: `(B, n)`, the beam index of each hypothesis in the record of its last token.
            lengths: `(B, n)`, its number of tokens.

        Returns:
            `(L, B, n)` beam indices; those past the length are undefined.
        """

        def step_back(step: Any, slots: Any, path: Any) -> tuple[Any, Any, Any]:
            step = step - 1
            path = replace_row(path, slots, step)
            parents = take_hypotheses(ops.take(self.parents, step, axis=0), slots)
            return step, ops.where(step < lengths, parents, slots), path

        path = ops.zeros((ops.shape(self.tokens)[0], *ops.shape(slots)), dtype="int32")
        return ops.while_loop(lambda step, *_: step > 0, step_back, (steps, slots, path))[-1]

    @staticmethod
    def gather_path(record: Any, path: Any) -> Any:
        """Gather `record (L, B, N, ...)` along `path (L, B, n)` -> `(B, n, L, ...)`."""
        steps, batch, width, *rest = ops.shape(record)
        best = path.shape[2]
        rows = ops.reshape(record, (steps * batch, width, *rest))
        rows = take_hypotheses(rows, ops.reshape(path, (steps * batch, best)))
        rows = ops.reshape(rows, (steps, batch, best, *rest))
        return ops.moveaxis(rows, 0, 2)


class NBestList(NamedTuple):
    """The n best completed hypotheses, best first; ties keep the order of completion.

    Attributes:
        scores: `(B, n)` float32, with length and coverage penalties; -inf for an empty slot. All
            are NaN once any hypothesis has a NaN score.
        lengths: `(B, n)` int32, tokens including the end token; 0 for an empty slot.
        slots: `(B, n)` int32, the beam index in the record of the hypothesis's last token.
        finished: `(B, n)` bool, whether the hypothesis ended with the end token.
    """

    scores: Any
    lengths: Any
    slots: Any
    finished: Any

    @classmethod
    def empty(cls, batch_size: Any, size: int) -> NBestList:
        """Return an instance with empty slots only."""
        zeros = ops.zeros((batch_size, size), dtype="int32")
        return cls(ops.cast(zeros, "float32") - float("inf"), zeros, zeros, zeros > 0)

    def merge(self, scores: Any, length: Any, finished: Any) -> NBestList:
        """Return the n best of these hypotheses and the ones that one step completed.

        Args:
            scores: `(B, N)`, -inf for hypotheses that are not complete.
            length: scalar, the length of all hypotheses of the step.
            finished: `(B, N)` bool, whether they ended with the end token.
        """
        is_complete = scores > float("-inf")
        slots = ops.zeros_like(self.slots[:, :1]) + ops.arange(scores.shape[1], dtype="int32")
        lengths = ops.where(is_complete, length, 0)
        new = NBestList(scores, lengths, slots, ops.logical_and(is_complete, finished))
        both = NBestList(*(ops.concatenate(pair, axis=1) for pair in zip(self, new, strict=True)))
        _, order = ops.top_k(both.scores, self.scores.shape[1])
        best = both.take(order)
        is_nan = ops.any(ops.isnan(both.scores), axis=1, keepdims=True)
        return best._replace(
            scores=ops.where(is_nan, float("nan"), best.scores),
            lengths=ops.where(is_nan, 0, best.lengths),
        )

    def take_first(self, count: int) -> NBestList:
        """Return the `count` best."""
        return NBestList(*(take_first(x, count) for x in self))

    def take(self, index: Any) -> NBestList:
        """Return the hypotheses at indices `(B, m)`."""
        return NBestList(*(take_hypotheses(x, ops.cast(index, "int32")) for x in self))

    def join_groups(self, groups: int, width: int) -> NBestList:
        """Join each source's G groups of `width` hypotheses: `(B G, n)` -> `(B, G n)`."""
        if groups == 1:
            return self
        rows, size = ops.shape(self.slots)
        offset = ops.repeat(ops.arange(0, groups * width, width, dtype="int32"), size)
        joined = NBestList(*(ops.reshape(x, (rows // groups, groups * size)) for x in self))
        return joined._replace(slots=joined.slots + offset)
