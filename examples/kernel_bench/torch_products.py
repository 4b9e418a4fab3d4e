"""compare_pytorch.py products: the products of GPT-2's linear layers against cuBLAS, as PyTorch calls
it, in one process, and the errors of both against float64.

Parts (--parts):
  errors   relative errors of every product on several kinds of data, tf32x3 against SGEMM: the root
           of the mean over rows of the squared error relative to the row's Euclidean norm
  times    microseconds of each product, median of --launches launches with the L2 cache flushed
  steps    all products of a training step back to back in a CUDA graph, in milliseconds: --pairs
           turns of cuBLAS, then llmc; "ratio" is the median over the turns of their quotient
  fused    bias + GELU and dGELU + bias gradient in the product's kernel and as passes of their own
  repeat   whether --repeats launches give the same bits
"""

import math
import pathlib
import statistics
import sys

import torch

from torch_bench import MATMUL_PRECISIONS, Stopwatch, add_library, is_repeatable, launcher

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "gpt2_trainer" / "compare"))
import gpt2_pytorch as gpt2  # noqa: E402

LAYERS = {"qkv": (768, 2304), "attproj": (768, 768), "fc": (768, 3072), "fcproj": (3072, 768),
          "head": (768, 50304)}
PRODUCTS = ("forward", "dinp", "dweight")
DEPTH = 12


class Product:
    """One product: its operands, as matrices that PyTorch multiplies, and where llmc writes."""

    def __init__(self, layer, name, rows):
        self.layer, self.name = layer, name
        channels, out_channels = LAYERS[layer]
        self.extents = (rows, channels, out_channels)
        self.inp1, self.inp2 = self.make(torch.randn)
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
        """Sets the operands so that the result is the product of these two."""
        return {"forward": lambda: (self.inp1, self.inp2.t()),
                "dinp": lambda: (self.inp1, self.inp2),
                "dweight": lambda: (self.inp1.t(), self.inp2)}[self.name]()

    def operations(self):
        return 2 * math.prod(self.extents)

    def title(self):
        return f"{self.layer} {self.name} at {self.extents[0]} rows"


class Llmc:
    def __init__(self, library, variant, precision, tuned=False):
        self.library, self.variant, self.precision = library, variant, precision
        self.tuned = tuned
        self.name = f"{variant} {precision}{' tuned' if tuned else ''}"

    def ready(self, p):
        """A function that computes the product of what the operands are now."""
        operation, arrays = {
            "forward": ("matmul_forward",
                        {"out": p.out, "inp": p.inp1, "weight": p.inp2, "bias": None}),
            "dinp": ("matmul_backward_without_dbias",
                     {"dinp": p.out, "dweight": None, "dout": p.inp1, "inp": None,
                      "weight": p.inp2}),
            "dweight": ("matmul_backward_without_dbias",
                        {"dinp": None, "dweight": p.out, "dout": p.inp1, "inp": p.inp2,
                         "weight": None})}[p.name]
        return launcher(self.library, operation, layer_shape(*p.extents), self.tuned,
                        variant=self.variant, precision=self.precision, **arrays)


class Cublas:
    def __init__(self, precision):
        self.precision = MATMUL_PRECISIONS[precision]
        self.name = "cuBLAS " + precision

    def ready(self, p):
        def run():
            torch.set_float32_matmul_precision(self.precision)
            torch.mm(*p.matrices(), out=p.out)
        run()
        return run


def layer_shape(rows, channels, out_channels):
    return {"rows": rows, "channels": channels, "out_channels": out_channels}


# ---- errors ----

def error_of(machine, p):
    """The error against float64, some rows at a time."""
    p.out.fill_(math.nan)
    machine.ready(p)()
    out = p.out
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
                    ours, theirs = error_of(exact, p), error_of(sgemm, p)
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
            ours, theirs = error_of(exact, p), error_of(sgemm, p)
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
                    t = stopwatch.time(machine.ready(p)).us
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
    """The graph, and the calls, whose memory it needs."""
    calls = [(machine.ready(p), 1 if p.layer == "head" else DEPTH) for p in products]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for run, times in calls:
            for _ in range(times):
                run()
    return graph, calls


def compare_steps(options, pairs_of_machines):
    for rows in options.rows:
        products = [Product(layer, name, rows) for layer in LAYERS for name in PRODUCTS]
        for theirs, ours in pairs_of_machines:
            graphs = [graph_of_step(products, machine) for machine in (theirs, ours)]
            times = []
            for _ in range(options.pairs):
                pair = []
                for graph, _ in graphs:
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


# ---- epilogues and bits ----

def in_turn(*calls):
    def run():
        for call in calls:
            call()
    return run


def compare_fused(options, library, stopwatch):
    make = lambda *shape: torch.randn(*shape, device="cuda")
    for rows in options.rows:
        inp, weight, bias = make(rows, 768), make(3072, 768), make(3072)
        out, before = make(rows, 3072), make(rows, 3072)
        dout, proj, sums = make(rows, 768), make(768, 3072), make(3072)
        fc, fcproj = layer_shape(rows, 768, 3072), layer_shape(rows, 3072, 768)
        wide = {"rows": rows, "channels": 3072}
        for precision in ("tf32x3", "tf32"):
            def product(operation, shape, variant="automatic", **arrays):
                return launcher(library, operation, shape, True, variant=variant,
                                precision=precision, **arrays)

            ways = {
                "bias + GELU": product("matmul_gelu_forward", fc, "tensor_core", out=out,
                                       before_gelu=before, inp=inp, weight=weight, bias=bias),
                "bias + GELU in passes": in_turn(
                    product("matmul_forward", fc, out=before, inp=inp, weight=weight, bias=bias),
                    launcher(library, "gelu_forward", wide, out=out, inp=before)),
                "dGELU + bias gradient": product(
                    "gelu_matmul_backward_without_dbias", fcproj, "tensor_core", dgelu_inp=out,
                    dgelu_bias=sums, dweight=None, dout=dout, gelu_inp=before, inp=None,
                    weight=proj),
                "dGELU + bias gradient in passes": in_turn(
                    product("matmul_backward_without_dbias", fcproj, dinp=out, dweight=None,
                            dout=dout, inp=None, weight=proj),
                    launcher(library, "gelu_backward", wide, dinp=out, dout=out, inp=before),
                    launcher(library, "matmul_bias_backward",
                             {"rows": rows, "out_channels": 3072}, dbias=sums, dout=out))}
            print(f"FUSED {rows} rows {precision}: "
                  + ", ".join(f"{name} {stopwatch.time(way).us:.0f} us"
                              for name, way in ways.items()), flush=True)


def check_repeatable(options, machines):
    for layer in LAYERS:
        for name in PRODUCTS:
            p = Product(layer, name, options.rows[0])
            for machine in machines:
                same = is_repeatable(machine.ready(p), [p.out], options.repeats)
                print(f"REPEAT {p.title():30} {machine.name:24} {options.repeats} times: {same}")


# ---- the program ----

def add_options(parser):
    add_library(parser)
    parser.add_argument("--parts", nargs="+", default=["errors", "times", "steps", "fused", "repeat"])
    parser.add_argument("--rows", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--launches", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=20)


def compare(options):
    library = options.library
    stopwatch = Stopwatch(options.launches)
    sgemm, cublas = Cublas("ieee"), Cublas("tf32")
    exact, fixed = Llmc(library, "automatic", "tf32x3"), Llmc(library, "automatic", "tf32")
    tuned = Llmc(library, "automatic", "tf32", tuned=True)
    lt_tuned = Llmc(library, "cublaslt", "tf32", tuned=True)
    own = Llmc(library, "tensor_core", "tf32")
    if "errors" in options.parts:
        compare_short_sums(exact, sgemm)
        compare_errors(options, exact, sgemm)
    if "times" in options.parts:
        compare_times(options, [sgemm, exact, cublas, lt_tuned, own, fixed, tuned], stopwatch)
    if "steps" in options.parts:
        compare_steps(options, [(sgemm, exact), (lt_tuned, tuned), (cublas, fixed)])
    if "fused" in options.parts:
        compare_fused(options, library, stopwatch)
    if "repeat" in options.parts:
        check_repeatable(options, [exact, own, tuned])
