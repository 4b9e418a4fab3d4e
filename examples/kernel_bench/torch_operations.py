"""PyTorch's counterpart of each operation of kernel_bench, at the shape that a record names.

A backward operation is the operator that autograd would run, called by itself. The inputs are
normal numbers and, as tokens, numbers that are as frequent as words are; they lie on the GPU.
"""

import types
import typing

import torch

aten = torch.ops.aten

EPSILON = 1e-5
SCALE = 0.125  # of the scores of heads of 64
NO_REDUCTION, IGNORED_TARGET = 0, -100
DEVICE = "cuda"


class Way(typing.NamedTuple):
    """One of the ways to do an operation, or a part of it."""
    name: str
    function: typing.Callable
    arguments: tuple
    compiles: bool = True  # whether torch.compile may find a faster one
    is_part: bool = False


COUNTERPARTS = {}


def counterpart(make_ways):
    """Registers a function of a shape, named like the operation, that returns its ways."""
    COUNTERPARTS[make_ways.__name__] = make_ways
    return make_ways


def ways_of(operation, shape):
    """Nothing where PyTorch has no such operation."""
    make_ways = COUNTERPARTS.get(operation)
    return make_ways(types.SimpleNamespace(**shape)) if make_ways else []


def normal(*shape):
    return torch.randn(*shape, device=DEVICE)


# ---- encoder ----

def tokens_of(s):
    uniform = torch.rand(s.batch, s.sequence, device=DEVICE, dtype=torch.float64)
    return (s.vocabulary ** uniform).long() - 1


@counterpart
def encoder_forward(s):
    def forward(tokens, wte, wpe):
        return aten.embedding(wte, tokens) + wpe

    return [Way("embedding + add", forward,
                (tokens_of(s), normal(s.vocabulary, s.channels), normal(s.sequence, s.channels)))]


@counterpart
def encoder_backward(s):
    """Autograd makes the whole gradient of wte anew; adding it to the classifier's is not timed."""
    def backward(dout, tokens):
        return aten.embedding_dense_backward(dout, tokens, s.vocabulary, -1, False), dout.sum(0)

    return [Way("embedding_dense_backward + sum", backward,
                (normal(s.batch, s.sequence, s.channels), tokens_of(s)))]


# ---- layer normalisation and residuals ----

def layernorm_inputs(s):
    return normal(s.rows, s.channels), normal(s.channels), normal(s.channels)


def normalise(inp, weight, bias):
    return aten.native_layer_norm(inp, [inp.shape[1]], weight, bias, EPSILON)


def normalise_backward(dout, inp, mean, rstd, weight, bias):
    return aten.native_layer_norm_backward(dout, inp, [inp.shape[1]], mean, rstd, weight, bias,
                                           [True, True, True])


@counterpart
def layernorm_forward(s):
    return [Way("layer_norm", normalise, layernorm_inputs(s))]


@counterpart
def layernorm_backward(s):
    inp, weight, bias = layernorm_inputs(s)
    _, mean, rstd = normalise(inp, weight, bias)
    return [Way("layer_norm_backward", normalise_backward,
                (normal(s.rows, s.channels), inp, mean, rstd, weight, bias))]


@counterpart
def residual_layernorm_forward(s):
    def forward(inp1, inp2, weight, bias):
        residual = inp1 + inp2
        return residual, *normalise(residual, weight, bias)

    inp1, weight, bias = layernorm_inputs(s)
    return [Way("add + layer_norm", forward, (inp1, normal(s.rows, s.channels), weight, bias))]


@counterpart
def residual_layernorm_backward(s):
    def backward(dresidual, *arguments):
        dinp, dweight, dbias = normalise_backward(*arguments)
        return dinp + dresidual, dweight, dbias

    (way,) = layernorm_backward(s)
    return [Way("layer_norm_backward + add", backward,
                (normal(s.rows, s.channels), *way.arguments))]


@counterpart
def residual_forward(s):
    return [Way("add", torch.add, (normal(s.rows, s.channels), normal(s.rows, s.channels)))]


# residual_backward has none: autograd hands the gradient on as it is.


# ---- products and attention ----

@counterpart
def matmul_forward(s):
    def forward(bias, inp, weight):
        return aten.addmm(bias, inp, weight.t())

    return [Way("addmm", forward, (normal(s.out_channels), normal(s.rows, s.channels),
                                   normal(s.out_channels, s.channels)), compiles=False)]


@counterpart
def matmul_backward(s):
    def backward(dout, inp, weight):
        return dout @ weight, dout.t() @ inp, dout.sum(0)

    dout, inp = normal(s.rows, s.out_channels), normal(s.rows, s.channels)
    weight = normal(s.out_channels, s.channels)

    def part(name, function, *arguments):
        return Way(name, function, arguments, compiles=False, is_part=True)

    return [Way("mm + mm + sum", backward, (dout, inp, weight)),
            part("dinp", torch.mm, dout, weight),
            part("dweight", torch.mm, dout.t(), inp),
            part("dbias", torch.sum, dout, 0)]


@counterpart
def matmul_backward_without_dbias(s):
    def backward(dout, inp, weight):
        return dout @ weight, dout.t() @ inp

    whole, *_ = matmul_backward(s)
    return [Way("mm + mm", backward, whole.arguments, compiles=False)]


def attention_inputs(s):
    """Queries, keys and values as views of one array, (B, NH, T, HS)."""
    qkv = normal(s.batch, s.sequence, 3, s.heads, s.head_size)
    return [qkv[:, :, i].transpose(1, 2) for i in range(3)]


def attend(q, k, v):
    return aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, True)


@counterpart
def attention_forward(s):
    return [Way("efficient attention", attend, tuple(attention_inputs(s)), compiles=False)]


@counterpart
def attention_backward(s):
    def backward(dout, q, k, v, *results):
        return aten._scaled_dot_product_efficient_attention_backward(
            dout, q, k, v, None, *results, 0.0, [True, True, True, False], True)

    parts = attention_inputs(s)
    dout = normal(s.batch, s.sequence, s.heads, s.head_size).transpose(1, 2)
    return [Way("efficient attention backward", backward, (dout, *parts, *attend(*parts)),
                compiles=False)]


# ---- attention in parts ----

def score_shape(s):
    return s.batch, s.heads, s.sequence, s.sequence


@counterpart
def permute_heads(s):
    def permute(inp):
        return inp.permute(2, 0, 3, 1, 4).contiguous()

    return [Way("permute + contiguous", permute,
                (normal(s.batch, s.sequence, s.parts, s.heads, s.head_size),))]


@counterpart
def unpermute_heads(s):
    def unpermute(inp):
        return inp.permute(1, 3, 0, 2, 4).contiguous()

    return [Way("permute + contiguous", unpermute,
                (normal(s.parts, s.batch, s.heads, s.sequence, s.head_size),))]


@counterpart
def causal_product(s):
    def product(q, k):
        return (q @ k.transpose(-1, -2)).tril()

    shape = s.batch, s.heads, s.sequence, s.head_size
    return [Way("matmul + tril", product, (normal(*shape), normal(*shape)))]


@counterpart
def causal_softmax_forward(s):
    def forward(inp, hidden):
        return aten._softmax((SCALE * inp).masked_fill(hidden, -torch.inf), -1, False)

    hidden = torch.ones(s.sequence, s.sequence, dtype=torch.bool, device=DEVICE).triu(1)
    return [Way("mul + masked_fill + softmax", forward, (normal(*score_shape(s)), hidden))]


@counterpart
def causal_softmax_backward(s):
    def backward(dout, out):
        return SCALE * aten._softmax_backward_data(dout, out, -1, torch.float32)

    (way,) = causal_softmax_forward(s)
    return [Way("softmax_backward + mul", backward,
                (normal(*score_shape(s)), way.function(*way.arguments)))]


# ---- GELU and softmax ----

@counterpart
def gelu_forward(s):
    def forward(inp):
        return aten.gelu(inp, approximate="tanh")

    return [Way("gelu", forward, (normal(s.rows, s.channels),))]


@counterpart
def gelu_backward(s):
    def backward(dout, inp):
        return aten.gelu_backward(dout, inp, approximate="tanh")

    return [Way("gelu_backward", backward, (normal(s.rows, s.channels),
                                            normal(s.rows, s.channels)))]


@counterpart
def softmax_forward(s):
    def forward(inp):
        return aten._softmax(inp, -1, False)

    return [Way("softmax", forward, (normal(s.rows, s.channels),))]


@counterpart
def softmax_backward(s):
    def backward(dout, out):
        return aten._softmax_backward_data(dout, out, -1, torch.float32)

    return [Way("softmax_backward", backward, (normal(s.rows, s.channels),
                                               normal(s.rows, s.channels).softmax(-1)))]


# ---- losses: all padded columns take part, which is faster in PyTorch than to leave some out ----

def loss_inputs(s):
    targets = torch.randint(s.vocabulary, (s.rows,), device=DEVICE)
    return normal(s.rows, s.padded_vocabulary), targets


def losses_of(logits, targets):
    """log(p) of every column, the losses, and what backward wants."""
    logarithms = aten._log_softmax(logits, 1, False)
    return logarithms, *aten.nll_loss_forward(logarithms, targets, None, NO_REDUCTION,
                                              IGNORED_TARGET)


def gradient_of_logits(dlosses, logarithms, targets, total_weight):
    gradient = aten.nll_loss_backward(dlosses, logarithms, targets, None, NO_REDUCTION,
                                      IGNORED_TARGET, total_weight)
    return aten._log_softmax_backward_data(gradient, logarithms, 1, torch.float32)


@counterpart
def crossentropy_forward(s):
    def forward(logits, targets):
        return losses_of(logits, targets)[1]

    return [Way("cross_entropy", forward, loss_inputs(s))]


@counterpart
def crossentropy_backward(s):
    logits, targets = loss_inputs(s)
    logarithms, _, total_weight = losses_of(logits, targets)
    return [Way("cross_entropy backward", gradient_of_logits,
                (normal(s.rows), logarithms, targets, total_weight))]


@counterpart
def classifier_forward_backward(s):
    def both(dlosses, logits, targets):
        logarithms, losses, total_weight = losses_of(logits, targets)
        return losses, gradient_of_logits(dlosses, logarithms, targets, total_weight)

    logits, targets = loss_inputs(s)
    dlosses = torch.full((s.rows,), 1 / s.rows, device=DEVICE)
    return [Way("cross_entropy and backward", both, (dlosses, logits, targets))]


@counterpart
def loss_sum(s):
    def add_up(losses):
        return losses.sum(dtype=torch.float64)

    return [Way("sum in double", add_up, (normal(s.rows),))]


# ---- all parameters at once ----

@counterpart
def global_norm(s):
    gradients = normal(s.count)
    return [Way("vector_norm", torch.linalg.vector_norm, (gradients,)),
            Way("get_total_norm", torch.nn.utils.get_total_norm, ([gradients],), compiles=False)]


def fused_adamw(weight_decay, params, gradients, m, v, steps):
    torch._fused_adamw_(params, gradients, m, v, [], steps, lr=6e-4, beta1=0.9, beta2=0.95,
                        weight_decay=weight_decay, eps=1e-8, amsgrad=False, maximize=False)


def adamw_arrays(count, tensors=1):
    """Lists of parameters, gradients, m, v and steps."""
    arrays = [[normal(count // tensors) for _ in range(tensors)] for _ in range(4)]
    torch._foreach_abs_(arrays[3])
    return [*arrays, [torch.tensor(10.0, device=DEVICE) for _ in range(tensors)]]


@counterpart
def adamw_update(s):
    """The gradient is clipped already: PyTorch clips in a pass of its own, which is not timed."""
    return [Way("fused AdamW", fused_adamw, (0.1, *adamw_arrays(s.count)), compiles=False)]


@counterpart
def adamw_update_segments(s):
    """Ten tensors in two groups, of which one decays."""
    def update(decayed, plain):
        fused_adamw(0.1, *decayed)
        fused_adamw(0.0, *plain)

    groups = adamw_arrays(s.count // 2, 5), adamw_arrays(s.count // 2, 5)
    return [Way("fused AdamW of two groups", update, groups, compiles=False)]
