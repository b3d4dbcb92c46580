"""Compactions as the wire shows them: that one begins, how it ended, and what stands for what it took away.

Types, and what fields of one record must not contradict. The same result stands in `compaction_end` and in the response
of `compact`. Source: R-CMP-01 to R-CMP-03, the published protocol.
"""

from typing import Literal, Self

from pydantic import model_validator

from pinnace_spec.records.messages import Usage
from pinnace_spec.records.output_model import Count, NonEmpty, OutputModel

CompactionReason = Literal["manual", "threshold", "overflow"]


class SeedCompactionResult(OutputModel):
    """A summary of the conversation before `firstKeptEntryId`. The number of tokens after it is an estimate."""

    summary: NonEmpty
    firstKeptEntryId: NonEmpty
    tokensBefore: Count
    estimatedTokensAfter: Count
    details: object


class CompactionResult(SeedCompactionResult):
    """With the usage of the summary, if a model wrote it."""

    usage: Usage | None = None


class SeedCompactionStart(OutputModel):
    """A compaction begins."""

    type: Literal["compaction_start"]
    reason: CompactionReason


class CompactionStart(SeedCompactionStart):
    """A compaction begins, with the id of the entry that it may become."""

    entryId: NonEmpty | None = None


class _CompactionEnd(OutputModel):
    type: Literal["compaction_end"]
    reason: CompactionReason
    aborted: bool
    willRetry: bool
    errorMessage: NonEmpty | None = None

    def _check(self, result: SeedCompactionResult | None) -> None:
        outcomes = (result is not None, self.aborted, self.errorMessage is not None)
        if sum(outcomes) != 1:
            raise ValueError("exactly one of: a result, aborted, an errorMessage")
        if self.willRetry and (result is None or self.reason != "overflow"):
            raise ValueError("willRetry without a compacted overflow")


class SeedCompactionEnd(_CompactionEnd):
    """A compaction has ended, in one of three ways; `result` is null in two of them."""

    result: SeedCompactionResult | None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        self._check(self.result)
        return self


class CompactionEnd(_CompactionEnd):
    """A compaction has ended, in one of three ways; `result` is null in two of them."""

    result: CompactionResult | None
    entryId: NonEmpty | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        self._check(self.result)
        return self
