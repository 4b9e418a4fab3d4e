"""compare_pytorch.py attention: llmc's causal attention against PyTorch's
scaled_dot_product_attention in FP32, in turns and in one process, and the errors of both against
float64.

A time is for forward and backward of one layer, with the L2 cache flushed before each launch unless
--warm is given: the median of --launches launches in each of --pairs turns of PyTorch, then llmc.
"ratio" is the median over the pairs of PyTorch's time divided by llmc's. TF/s count useful causal
operations: 4 (forward) and 10 (backward) for each query, visible key and feature, T^2 / 2 pairs.
Errors are relative, as Euclidean norms, of out / dq / dk / dv.
"""

import contextlib
import math
import statistics

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_bench import FLUSH_BYTES, Stopwatch, add_library, is_repeatable, launcher

# A title, what queries are multiplied by, and the mean of values; otherwise normal numbers.
DATA = (("randn", 1.0, 0.0), ("q x 6", 6.0, 0.0), ("q x 0.1, v mean 1", 0.1, 1.0))


class Problem:
    """One layer's inputs, and the buffers that llmc writes."""

    def __init__(self, batch, sequence, heads, head_size, query_scale=1.0, value_mean=0.0):
        make = lambda *extents: torch.randn(*extents, device="cuda")
        self.shape = (batch, sequence, heads, head_size)
        self.qkv = make(batch, sequence, 3, heads, head_size)
        self.qkv[:, :, 0] *= query_scale
        self.qkv[:, :, 2] += value_mean
        self.dout = make(batch, sequence, heads, head_size)
        self.out = torch.full_like(self.dout, math.nan)
        self.lse = torch.full((batch, heads, sequence), math.nan, device="cuda")
        self.dqkv = torch.full_like(self.qkv, math.nan)

    def operations(self, factor):
        batch, sequence, heads, head_size = self.shape
        return factor * sequence * sequence / 2 * head_size * batch * heads


class Llmc:
    def __init__(self, library, variant, precision):
        self.library, self.variant, self.precision = library, variant, precision
        self.name = f"{variant} {precision}"

    def prepare(self, p):
        shape = dict(zip(("batch", "sequence", "heads", "head_size"), p.shape))
        call = lambda operation, **arrays: launcher(
            self.library, operation, shape, variant=self.variant, precision=self.precision,
            qkv=p.qkv, out=p.out, lse=p.lse, **arrays)
        self.forward = call("attention_forward")
        self.backward = call("attention_backward", dqkv=p.dqkv, dout=p.dout)

    def both(self):
        self.forward()
        self.backward()

    def results(self, p):
        self.both()
        return p.out, p.dqkv


class PyTorch:
    name = "PyTorch SDPA"

    def prepare(self, problem):
        self.parts = [part.detach().requires_grad_() for part in _heads(problem.qkv)]
        self.dout = problem.dout.transpose(1, 2)

    def forward(self):
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), torch.no_grad():
            functional.scaled_dot_product_attention(*self.parts, is_causal=True)

    def both(self):
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            out = functional.scaled_dot_product_attention(*self.parts, is_causal=True)
            return out, torch.autograd.grad(out, self.parts, self.dout)

    def results(self, _):
        out, gradients = self.both()
        return out.detach().transpose(1, 2), _joined(gradients)


def _heads(qkv):
    return [qkv[:, :, i].transpose(1, 2) for i in range(3)]


def _joined(gradients):
    return torch.stack([g.transpose(1, 2) for g in gradients], dim=2)


def reference(problem):
    """out and dqkv in float64, one batch entry and a few heads at a time."""
    batch, sequence, heads, head_size = problem.shape
    out = torch.empty(problem.dout.shape, dtype=torch.float64, device="cuda")
    dqkv = torch.empty(problem.qkv.shape, dtype=torch.float64, device="cuda")
    hidden = torch.ones(sequence, sequence, dtype=torch.bool, device="cuda").triu(1)
    step = max(1, (1 << 26) // sequence ** 2)
    for b in range(batch):
        for first in range(0, heads, step):
            part = slice(first, first + step)
            q, k, v = [x[b, part].double().requires_grad_() for x in _heads(problem.qkv)]
            scores = (q @ k.transpose(-1, -2)) / math.sqrt(head_size)
            y = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
            dout = problem.dout[b, :, part].transpose(0, 1).double()
            gradients = torch.autograd.grad(y, (q, k, v), dout)
            out[b, :, part] = y.detach().transpose(0, 1)
            for i, gradient in enumerate(gradients):
                dqkv[b, :, i, part] = gradient.transpose(0, 1)
    return out, dqkv


def errors(actual, expected):
    relative = lambda a, e: ((a.double() - e).norm() / e.norm()).item()
    gradients = [relative(actual[1][:, :, i], expected[1][:, :, i]) for i in range(3)]
    return " / ".join(f"{x:.2e}" for x in [relative(actual[0], expected[0]), *gradients])


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def compare_times(problem, machines, options, stopwatch):
    pytorch = PyTorch()
    pytorch.prepare(problem)
    one = lambda call: stopwatch.time(call).us / 1000
    for machine in machines:
        machine.prepare(problem)
        ratios, deterministic_ratios, times = [], [], []
        for _ in range(options.pairs):
            theirs = one(pytorch.both)
            ours = one(machine.both)
            with deterministic():
                repeatable = one(pytorch.both)
            times.append((theirs, repeatable, ours))
            ratios.append(theirs / ours)
            deterministic_ratios.append(repeatable / ours)
        theirs, repeatable, ours = (statistics.median(column) for column in zip(*times))
        forward = one(machine.forward)
        pytorch_forward = one(pytorch.forward)
        rate = lambda factor, ms: problem.operations(factor) / ms / 1e9
        print(f"TIME {describe(problem)} {machine.name:20} "
              f"{ours:.3f} ms ({rate(14, ours):.0f} TF/s), "
              f"forward {forward:.3f} ({rate(4, forward):.0f} TF/s); "
              f"PyTorch {theirs:.3f}, deterministic {repeatable:.3f}, "
              f"forward {pytorch_forward:.3f}; "
              f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
              f"to deterministic {statistics.median(deterministic_ratios):.2f}", flush=True)


def compare_errors(problem, machines, title):
    expected = reference(problem)
    for machine in [PyTorch(), *machines]:
        machine.prepare(problem)
        print(f"ERROR {describe(problem)} {title:17} {machine.name:20} "
              f"{errors(machine.results(problem), expected)}", flush=True)


def check_repeatable(problem, machines, repeats):
    for machine in machines:
        machine.prepare(problem)
        same = is_repeatable(machine.both, (problem.out, problem.lse, problem.dqkv), repeats)
        print(f"REPEAT {describe(problem)} {machine.name:20} {repeats} times the same bits: {same}")


def describe(problem):
    return "B=%d T=%d NH=%d HS=%d" % problem.shape


# ---- the program ----

def add_options(parser):
    add_library(parser)
    parser.add_argument("--shapes", default="16,1024,12,64 4,1024,12,64 4,4096,12,64 16,1024,12,80 "
                        "16,1024,12,96 16,1024,12,128", help="B,T,NH,HS, separated by blanks")
    parser.add_argument("--error-shapes", default="4,1024,12,64 4,4096,12,64 2,1024,12,80 "
                        "2,1024,12,96 2,1024,12,128")
    parser.add_argument("--precisions", default="tf32 tf32x3 ieee")
    parser.add_argument("--materialised", action="store_true", help="that variant, too (ieee)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--launches", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm", action="store_true", help="leave the L2 cache as it is")


def compare(options):
    library = options.library
    machines = [Llmc(library, "flash", precision) for precision in options.precisions.split()]
    if options.materialised:
        machines.append(Llmc(library, "materialised", "ieee"))
    shapes = lambda text: [tuple(map(int, shape.split(","))) for shape in text.split()]
    stopwatch = Stopwatch(options.launches, 0 if options.warm else FLUSH_BYTES)
    for shape in shapes(options.shapes):
        problem = Problem(*shape)
        compare_times(problem, machines, options, stopwatch)
        check_repeatable(problem, machines, options.repeats)
    for shape in shapes(options.error_shapes):
        for title, scale, mean in DATA:
            compare_errors(Problem(*shape, query_scale=scale, value_mean=mean), machines, title)
