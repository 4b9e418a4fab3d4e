"""What the parts of compare_pytorch.py share: a stopwatch, and llmc's launchers on tensors."""

import argparse
import statistics
import typing

import torch

from library import Library

# llmc's precision: PyTorch's name of the matmul precision to compare it with.
MATMUL_PRECISIONS = {"ieee": "highest", "tf32": "high", "tf32x3": "highest"}
# More than twice the L2 cache of an H100 or H200.
FLUSH_BYTES = 256 << 20


class Timing(typing.NamedTuple):
    us: float  # median
    spread: float  # between the quartiles, as a share of the median


class Stopwatch:
    """Times work on the GPU with a cold L2 cache, as kernel_bench does: the events are round the
    work alone, and before them a buffer is overwritten that is larger than the cache.

    That also keeps the GPU busy while the host launches the work; `overwrites` makes it last longer
    where the host needs more time. With `flush_bytes` of 0 the cache stays as it is.
    """

    WARM_UP = 3  # runs that are not timed, of which the first may compile

    def __init__(self, launches, flush_bytes=FLUSH_BYTES, overwrites=1):
        self.flush = torch.empty(flush_bytes, dtype=torch.uint8, device="cuda")
        self.overwrites = overwrites if flush_bytes else 0
        self.events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)]
                       for _ in range(launches)]

    def time(self, call):
        for _ in range(self.WARM_UP):
            call()
        torch.cuda.synchronize()
        for begin, end in self.events:
            for _ in range(self.overwrites):
                self.flush.zero_()
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        us = [1000 * begin.elapsed_time(end) for begin, end in self.events]
        median = statistics.median(us)
        if len(us) < 2:
            return Timing(median, 0.0)
        lower, _, upper = statistics.quantiles(us, n=4, method="inclusive")
        return Timing(median, (upper - lower) / median)


def _load(path):
    try:
        return Library(path)
    except OSError as error:
        raise argparse.ArgumentTypeError(error) from error


def add_library(parser):
    parser.add_argument("library", type=_load, help="libkernel_bench_c.so")


def launcher(library, operation, shape, tune=False, variant="automatic", precision=None, **arrays):
    """A function that launches it on the current stream; with `tune`, once tuned."""
    call = library.call(operation, shape, arrays, variant, precision)
    current = lambda: torch.cuda.current_stream().cuda_stream
    call.launch(current(), tune)  # finds the plan and the memory
    return lambda: call.launch(current())


def is_repeatable(run, results, repeats):
    """Whether each run leaves the same bits in the tensors of `results`."""
    run()
    first = [x.clone() for x in results]
    same = True
    for _ in range(repeats):
        for x in results:
            x.fill_(torch.nan)
        run()
        same &= all(torch.equal(a, b) for a, b in zip(first, results))
    return same
