"""Times llmc's products of GPT-2's linear layers against cuBLAS, as PyTorch calls it, in one process,
and measures the errors of both against float64.

    cmake --build build --target matmul_bench
    python3 examples/matmul_bench/compare_pytorch.py build/examples/matmul_bench/libmatmul_bench.so

Parts (--parts):
  errors   relative errors of every product on several kinds of data, tf32x3 against SGEMM: the root
           of the mean over rows of the squared error relative to the row's Euclidean norm
  times    microseconds of each product, median of --launches launches with the L2 cache flushed
  steps    all products of a training step back to back in a CUDA graph, in milliseconds: --pairs
           turns of cuBLAS, then llmc; "ratio" is the median over the turns of their quotient
  fused    bias + GELU and dGELU + bias gradient in the product's kernel and as passes of their own
  repeat   whether --repeats launches give the same bits
"""

import argparse
import ctypes
import math
import pathlib
import statistics
import sys

import torch

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(EXAMPLES / "bench_support"), str(EXAMPLES / "gpt2_trainer" / "compare")]
import gpt2_pytorch as gpt2  # noqa: E402
from torch_bench import MATMUL_PRECISIONS, Stopwatch, at, check, stream  # noqa: E402

LAYERS = {"qkv": (768, 2304), "attproj": (768, 768), "fc": (768, 3072), "fcproj": (3072, 768),
          "head": (768, 50304)}
PRODUCTS = ("forward", "dinp", "dweight")
DEPTH = 12


class Product:
    """One product: its operands, as matrices that PyTorch multiplies, and where llmc writes."""

    def __init__(self, layer, name, rows, operands=None):
        self.layer, self.name = layer, name
        channels, out_channels = LAYERS[layer]
        self.extents = (rows, channels, out_channels)
        self.shape = (ctypes.c_int64 * 3)(*self.extents)
        self.inp1, self.inp2 = operands or self.make(torch.randn)
        self.out = torch.full(self.output_shape(), math.nan, device="cuda")

    def operand_shapes(self):
        rows, channels, out_channels = self.extents
        return {"forward": ((rows, channels), (out_channels, channels)),
                "dinp": ((rows, out_channels), (out_channels, channels)),
                "dweight": ((rows, out_channels), (rows, channels))}[self.name]

    def output_shape(self):
        rows, channels, out_channels = self.extents
        return {"forward": (rows, out_channels), "dinp": (rows, channels),
                "dweight": (out_channels, channels)}[self.name]

    def make(self, generator):
        return [generator(*shape, device="cuda") for shape in self.operand_shapes()]

    def matrices(self):
        """So that the result is the product of these two."""
        return {"forward": lambda: (self.inp1, self.inp2.t()),
                "dinp": lambda: (self.inp1, self.inp2),
                "dweight": lambda: (self.inp1.t(), self.inp2)}[self.name]()

    def operations(self):
        return 2 * math.prod(self.extents)

    def title(self):
        return f"{self.layer} {self.name} at {self.extents[0]} rows"


class Llmc:
    def __init__(self, library, variant, precision, tuned=False):
        self.library, self.tuned = library, tuned
        self.variant, self.precision = variant.encode(), precision.encode()
        self.context = ctypes.c_void_p(library.matmul_bench_context())
        self.name = f"{variant} {precision}{' tuned' if tuned else ''}"

    def prepare(self, p):
        self._call(p, 1 if self.tuned else 0)

    def run(self, p):
        self._call(p, 0)
        return p.out

    def _call(self, p, tune):
        check(self.library.matmul_bench_product(
            self.context, self.variant, self.precision, p.name.encode(), at(p.out), at(p.inp1),
            at(p.inp2), None, p.shape, stream(), tune))


class Cublas:
    tuned = False

    def __init__(self, precision):
        self.precision = MATMUL_PRECISIONS[precision]
        self.name = "cuBLAS " + precision

    def prepare(self, p):
        self.run(p)

    def run(self, p):
        torch.set_float32_matmul_precision(self.precision)
        return torch.mm(*p.matrices(), out=p.out)


# ---- errors ----

def error_of(out, p):
    """Against float64, some rows at a time."""
    a, b = p.matrices()
    b = b.double()
    total, step = 0.0, 1024
    for first in range(0, out.shape[0], step):
        expected = a[first:first + step].double() @ b
        difference = (out[first:first + step].double() - expected).norm(dim=1)
        total += (difference / expected.norm(dim=1).clamp_min(1e-300)).square().sum().item()
    return math.sqrt(total / out.shape[0])


def data_sets(p):
    """(title, operands) of each kind of data for a product."""
    yield "normal", p.make(torch.randn)
    inp1, inp2 = p.make(torch.randn)
    outer = 1 if p.name == "dweight" else 0
    exponents = torch.linspace(-40, 40, inp1.shape[outer], device="cuda")
    scales = torch.exp2(exponents[torch.randperm(len(exponents), device="cuda")].round())
    yield "rows x 2^-40..2^40", (inp1 * (scales if outer else scales[:, None]), inp2)
    yield "positive", [x.abs_() for x in p.make(torch.randn)]
    inp1, inp2 = p.make(torch.randn)
    yield "x 2^100, x 2^-100", (inp1 * 2.0 ** 97, inp2 * 2.0 ** -97)


class Recorder:
    """The operands of every linear layer in training steps of GPT-2 124M on words of Zipf's law."""

    def __init__(self, rows, steps=20):
        config = gpt2.Config.from_depth(DEPTH)
        config.vocabulary = config.padded_vocabulary
        model = gpt2.GPT2(config)
        gpt2.initialise(model, 1)
        model.cuda()
        optimizer = torch.optim.AdamW(model.optimizer_groups(0.1), lr=6e-4, fused=True)
        torch.set_float32_matmul_precision("high")
        weights = 1 / torch.arange(1, 50258, device="cuda", dtype=torch.float)
        draw = lambda: torch.multinomial(weights, rows, replacement=True).view(-1, 1024)
        for _ in range(steps):
            tokens = draw()
            optimizer.zero_grad()
            model.loss(tokens, tokens.roll(-1)).backward()
            optimizer.step()
        self.operands = {}
        block = model.blocks[DEPTH // 2]
        for layer in ("qkv", "attproj", "fc", "fcproj"):
            self._record(getattr(block, layer), layer)
        final = {}
        model.lnf.register_forward_hook(lambda _, __, out: final.update(inp=out.detach()))
        tokens = draw()
        optimizer.zero_grad()
        logits = model(tokens)
        logits.retain_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(-1).flatten()).backward()
        self.operands["head"] = (final["inp"].flatten(0, 1), model.wte.weight.detach(),
                                 logits.grad.flatten(0, 1))

    def _record(self, module, layer):
        kept = {}
        module.register_forward_hook(lambda _, inp, __: kept.update(inp=inp[0].detach()))

        def backward(_, __, dout):
            self.operands[layer] = tuple(x.flatten(0, 1).contiguous() if x.dim() == 3 else x
                                         for x in (kept["inp"], module.weight.detach(),
                                                   dout[0].detach()))
        module.register_full_backward_hook(backward)

    def of(self, p):
        inp, weight, dout = self.operands[p.layer]
        return {"forward": (inp, weight), "dinp": (dout, weight), "dweight": (dout, inp)}[p.name]


def compare_errors(options, exact, sgemm):
    worst = 0.0
    for rows in options.rows:
        recorder = Recorder(rows)
        for layer in LAYERS:
            for name in PRODUCTS:
                p = Product(layer, name, rows)
                sets = [*data_sets(p), ("training step", recorder.of(p))]
                for title, operands in sets:
                    p.inp1, p.inp2 = operands
                    p.out.fill_(math.nan)
                    ours = error_of(exact.run(p), p)
                    theirs = error_of(sgemm.run(p), p)
                    worst = max(worst, ours / theirs)
                    print(f"ERROR {p.title():30} {title:18} llmc {ours:.2e} cuBLAS {theirs:.2e}"
                          f"{'' if ours <= theirs else '  LARGER'}", flush=True)
                del sets, p
    print(f"ERROR largest quotient {worst:.2f}")


def compare_short_sums(exact, sgemm):
    for inner in (64, 768, 3072, 4096, 50304):
        LAYERS["short"] = (inner, 1024)
        p = Product("short", "forward", 1024)
        for title, operands in data_sets(p):
            p.inp1, p.inp2 = operands
            ours, theirs = error_of(exact.run(p), p), error_of(sgemm.run(p), p)
            print(f"ERROR K={inner:<6} {title:18} llmc {ours:.2e} cuBLAS {theirs:.2e}"
                  f"{'' if ours <= theirs else '  LARGER'}", flush=True)
    del LAYERS["short"]


# ---- times ----

def compare_times(options, machines, stopwatch):
    sums = {}
    print("TIME", "product".ljust(30), *(m.name for m in machines), sep=" | ")
    for rows in options.rows:
        for layer in LAYERS:
            for name in PRODUCTS:
                p = Product(layer, name, rows)
                row = []
                for machine in machines:
                    machine.prepare(p)
                    t = stopwatch.time(lambda: machine.run(p)).us
                    row.append(f"{t:.0f} ({p.operations() / t / 1e6:.0f})")
                    key = rows, machine.name, name
                    sums[key] = sums.get(key, 0) + t * (1 if layer == "head" else DEPTH)
                print("TIME", p.title().ljust(30), *row, sep=" | ", flush=True)
                del p
        for machine in machines:
            parts = [sums[rows, machine.name, name] / 1000 for name in PRODUCTS]
            print(f"SUM {rows} rows {machine.name:24} {sum(parts):.2f} ms = forward "
                  + " + ".join(f"{name} {ms:.2f}" for name, ms in zip(PRODUCTS, parts)), flush=True)


def graph_of_step(products, machine):
    for p in products:
        machine.prepare(p)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for p in products:
            for _ in range(1 if p.layer == "head" else DEPTH):
                machine.run(p)
    return graph


def compare_steps(options, pairs_of_machines):
    for rows in options.rows:
        products = [Product(layer, name, rows) for layer in LAYERS for name in PRODUCTS]
        for theirs, ours in pairs_of_machines:
            graphs = [graph_of_step(products, machine) for machine in (theirs, ours)]
            times = []
            for _ in range(options.pairs):
                pair = []
                for graph in graphs:
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    graph.replay()
                    begin.record()
                    graph.replay()
                    end.record()
                    torch.cuda.synchronize()
                    pair.append(begin.elapsed_time(end))
                times.append(pair)
            ratios = [a / b for a, b in times]
            a, b = (statistics.median(column) for column in zip(*times))
            print(f"STEP {rows} rows: {theirs.name} {a:.2f} ms, {ours.name} {b:.2f} ms, ratio "
                  f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
                  flush=True)
            del graphs
        del products


def compare_fused(options, library, stopwatch):
    context = ctypes.c_void_p(library.matmul_bench_context())
    make = lambda *shape: torch.randn(*shape, device="cuda")
    for rows in options.rows:
        inp, weight, bias = make(rows, 768), make(3072, 768), make(3072)
        out, before = make(rows, 3072), make(rows, 3072)
        shape = (ctypes.c_int64 * 3)(rows, 768, 3072)
        dout, proj, sums = make(rows, 768), make(768, 3072), make(3072)
        proj_shape = (ctypes.c_int64 * 3)(rows, 3072, 768)
        workspace = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        for precision in ("tf32x3", "tf32"):
            times = []
            for fused in (0, 1):
                gelu = lambda tune=0: check(library.matmul_bench_gelu(
                    context, precision.encode(), fused, at(out), at(before), at(inp), at(weight),
                    at(bias), shape, stream(), tune))
                dgelu = lambda tune=0: check(library.matmul_bench_dgelu(
                    context, precision.encode(), fused, at(out), at(sums), at(workspace), at(dout),
                    at(before), at(proj), proj_shape, stream(), tune))
                for call in (gelu, dgelu):
                    call(1)
                    times.append(stopwatch.time(call).us)
            print(f"FUSED {rows} rows {precision}: bias + GELU {times[2]:.0f} us, as two passes "
                  f"{times[0]:.0f}; dGELU + bias gradient {times[3]:.0f}, as passes {times[1]:.0f}",
                  flush=True)


def check_repeatable(options, machines):
    for layer in LAYERS:
        for name in PRODUCTS:
            p = Product(layer, name, options.rows[0])
            for machine in machines:
                machine.prepare(p)
                first = machine.run(p).clone()
                same = True
                for _ in range(options.repeats):
                    p.out.fill_(math.nan)
                    same &= torch.equal(first, machine.run(p))
                print(f"REPEAT {p.title():30} {machine.name:24} {options.repeats} times: {same}")


def load(path):
    library = ctypes.CDLL(path)
    library.matmul_bench_context.restype = ctypes.c_void_p
    for name in ("product", "gelu", "dgelu"):
        getattr(library, "matmul_bench_" + name).restype = ctypes.c_char_p
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libmatmul_bench.so")
    parser.add_argument("--parts", nargs="+", default=["errors", "times", "steps", "fused", "repeat"])
    parser.add_argument("--rows", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--launches", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()

    library = load(options.library)
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    stopwatch = Stopwatch(options.launches)
    sgemm, cublas = Cublas("ieee"), Cublas("tf32")
    exact, mma = Llmc(library, "automatic", "tf32x3"), Llmc(library, "mma", "tf32x3")
    fixed = Llmc(library, "automatic", "tf32")
    tuned = Llmc(library, "automatic", "tf32", tuned=True)
    lt_tuned = Llmc(library, "cublaslt", "tf32", tuned=True)
    own = Llmc(library, "tensor_core", "tf32")
    if "errors" in options.parts:
        compare_short_sums(exact, sgemm)
        compare_errors(options, exact, sgemm)
    if "times" in options.parts:
        compare_times(options, [sgemm, exact, mma, cublas, lt_tuned, own, fixed, tuned], stopwatch)
    if "steps" in options.parts:
        compare_steps(options, [(sgemm, exact), (sgemm, mma), (lt_tuned, tuned), (cublas, fixed)])
    if "fused" in options.parts:
        compare_fused(options, library, stopwatch)
    if "repeat" in options.parts:
        check_repeatable(options, [exact, mma, own, tuned])


if __name__ == "__main__":
    main()
