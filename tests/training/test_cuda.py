"""The kernels compute what plain torch computes in float64, and the CUDA engine trains as the plain one does."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from ladp import columns, experiment, models
from ladp.data.skew import Dirichlet
from ladp.errors import Problem
from ladp.keys import Key
from ladp.federation import begin, federate
from ladp.mechanisms import LaDP, NoNoise
from ladp.params import Layer, Layout
from ladp.privacy.mechanism import Training
from ladp.training.local import PAD, augment, normalise
from ladp.training.records import Geometry, clipped_sums, stacked_step

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
pytestmark = pytest.mark.gpu

from ladp.training.cuda import convolution, elements, normalisation, pooling  # noqa: E402
from ladp.training.sequential import Sequential  # noqa: E402
from ladp.training.stacked import Stacked  # noqa: E402

FINE = {torch.float32: 2e-6, torch.bfloat16: 8e-3}


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to("cuda", dtype)


def far(found, wanted):
    return float((found.detach().double() - wanted.detach().double()).norm() / wanted.detach().double().norm())


@pytest.mark.parametrize("dtype", FINE)
@pytest.mark.parametrize("C,N,side,size,stride,pad,B", [(3, 16, 32, 3, 1, 1, 7), (16, 32, 8, 3, 1, 1, 50), (64, 64, 16, 3, 1, 1, 5), (64, 128, 9, 3, 2, 1, 3), (64, 128, 8, 1, 2, 0, 4), (128, 256, 8, 3, 1, 1, 50), (256, 512, 4, 3, 2, 1, 6), (5, 7, 6, 5, 1, 2, 3)])
def test_convolutions_and_their_gradients_are_those_of_torch(dtype, C, N, side, size, stride, pad, B):
    K, window = 3, convolution.Window(size, stride, pad)
    x, w, b = draw(K, B, side, side, C, dtype=dtype), draw(K, N, size, size, C, dtype=dtype, seed=1), draw(K, N, dtype=torch.float32, seed=2)
    leaves = [t.double().requires_grad_() for t in (x, w)]
    wanted = torch.stack([F.conv2d(leaves[0][k].permute(0, 3, 1, 2), leaves[1][k].permute(0, 3, 1, 2), None, stride, pad).permute(0, 2, 3, 1) for k in range(K)])
    assert far(convolution.convolve(x, w, b, window), wanted + b.double()[:, None, None, None]) < FINE[dtype]
    gradient = draw(*wanted.shape, dtype=dtype, seed=3)
    back = torch.autograd.grad(wanted, leaves, gradient.double())
    into, out, bias = draw(*x.shape, dtype=dtype, seed=4), torch.full_like(w, torch.nan), torch.full_like(b, torch.nan)
    assert far(convolution.convolve_back(gradient, w, x.shape, window), back[0]) < FINE[dtype]
    assert far(convolution.convolve_back(gradient, w, x.shape, window, into), back[0] + into.double()) < FINE[dtype]
    for parts in (None, 1, 3):
        convolution.correlate(gradient, x, out.fill_(torch.nan), bias.fill_(torch.nan), window, parts=parts)
        assert far(out, back[1]) < FINE[dtype] and far(bias, gradient.double().sum((1, 2, 3))) < FINE[dtype]
    convolution.correlate(gradient, x, out.fill_(torch.nan), None, window)
    assert far(out, back[1]) < FINE[dtype]


@pytest.mark.parametrize("dtype", FINE)
@pytest.mark.parametrize("relu,added", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("C,side", [(64, 16), (5, 3), (512, 4)])
def test_batch_normalisation_with_what_follows_it_is_that_of_torch(dtype, relu, added, C, side):
    K, B = 3, 6
    x, shortcut = draw(K, B, side, side, C, dtype=dtype) + 3, draw(K, B, side, side, C, dtype=dtype, seed=1) if added else None
    matrix = torch.stack([draw(K, C, seed=s).float() for s in (2, 3, 4)] + [torch.rand(K, C, device="cuda") + 0.5], 1).contiguous()
    gamma, beta, mean, var = matrix.unbind(1)
    leaves = [t.double().requires_grad_() for t in (x, gamma, beta, *([shortcut] if added else []))]
    running = mean.double(), var.double()
    wanted = torch.stack([F.batch_norm(leaves[0][k].permute(0, 3, 1, 2), running[0][k], running[1][k], leaves[1][k], leaves[2][k], True, 0.1, 1e-5).permute(0, 2, 3, 1) for k in range(K)])
    wanted = F.relu(wanted + leaves[3] if added else wanted) if relu else wanted
    y, moments = normalisation.normalise(x, shortcut, gamma, beta, mean, var, 0.1, 1e-5, relu)
    assert far(y, wanted) < FINE[dtype] and far(mean, running[0]) < 1e-3 and far(var, running[1]) < 1e-3
    gradient, slopes = draw(*x.shape, dtype=dtype, seed=5), torch.full((K, 2, C), torch.nan, device="cuda")
    back = torch.autograd.grad(wanted, leaves, gradient.double())
    dx, passed = normalisation.normalise_back(gradient, x, y if added else None, moments, gamma, beta, slopes[:, 0], slopes[:, 1], added, relu)
    limit = 3 * FINE[dtype] if dtype == torch.float32 else 0.03  # a value within rounding of zero may fall on the other side of the ReLU
    assert far(dx, back[0]) < limit and far(slopes[:, 0], back[1]) < limit and far(slopes[:, 1], back[2]) < limit
    assert not added or far(passed, back[3]) < limit


@pytest.mark.parametrize("side,size,relu", [(8, 2, True), (9, 2, False), (9, 3, True)])
def test_pooling_is_that_of_torch(side, size, relu):
    x = draw(2, 3, side, side, 5, dtype=torch.float32)
    leaf = x.double().requires_grad_()
    wanted = F.max_pool2d(F.relu(leaf).flatten(0, 1).permute(0, 3, 1, 2) if relu else leaf.flatten(0, 1).permute(0, 3, 1, 2), size).permute(0, 2, 3, 1).unflatten(0, (2, 3))
    y, choice = pooling.pool(x, size, relu)
    gradient = draw(*wanted.shape, dtype=torch.float32, seed=1)
    assert far(y, wanted) < 1e-7 and far(pooling.unpool(gradient, choice, x.shape, size), torch.autograd.grad(wanted, leaf, gradient.double())[0]) < 1e-7


def test_the_loss_and_its_gradient_are_those_of_torch():
    logits, labels, losses = draw(4, 50, 62, dtype=torch.float32), torch.randint(62, (4, 50), device="cuda"), torch.zeros(4, dtype=torch.float64, device="cuda")
    leaf = logits.double().requires_grad_()
    wanted = torch.stack([F.cross_entropy(leaf[k], labels[k]) for k in range(4)])
    slope = elements.cross_entropy(logits, labels, losses)
    assert far(losses, wanted) < 1e-6 and far(slope, torch.autograd.grad(wanted.sum(), leaf)[0]) < 1e-6


@pytest.mark.parametrize("clip", [1.0, 1e6])
def test_descent_clips_each_client_by_its_own_gradient(clip):
    matrix, slopes = draw(3, 50_048, dtype=torch.float32), draw(3, 50_000, dtype=torch.float32, seed=1)
    slopes[0] *= 1e-4
    wanted = matrix[:, :50_000].double() - 0.1 * slopes.double() / (slopes.double().norm(dim=1, keepdim=True) / clip).clamp_min(1)
    working = torch.empty(3, 50_000, dtype=torch.bfloat16, device="cuda")
    elements.descend(matrix[:, :50_000], slopes, working, 0.1, clip)
    assert far(matrix[:, :50_000], wanted) < 1e-7 and torch.equal(working, matrix[:, :50_000].bfloat16())


def test_images_are_cropped_and_mirrored_as_the_plain_engine_does():
    images, labels = torch.randint(256, (20, 3, 12, 12), dtype=torch.uint8, device="cuda"), torch.arange(20, device="cuda")
    index, shift, mirror = torch.randint(20, (2, 9)), torch.randint(2 * PAD + 1, (2, 9, 2)), torch.randint(2, (2, 9))
    order = ((index << 8) + shift[..., 0] * (4 * PAD + 2) + shift[..., 1] * 2 + mirror).cuda()
    x, y = elements.fetch(images, labels, order, torch.tensor([2, 0], device="cuda"), 5, PAD, torch.float32)
    for k, at in ((0, 2), (1, 0)):
        part = slice(at, at + 5)
        wanted = augment(normalise(images[index[k, part].cuda()]), shift[k, part].cuda(), mirror[k, part].cuda())
        assert torch.allclose(x[k], wanted.permute(0, 2, 3, 1), atol=1e-6) and torch.equal(y[k], index[k, part].cuda())


def test_dropout_keeps_its_share_repeats_itself_and_differs_by_client_layer_and_step():
    x, seeds, cursor = torch.ones(3, 50, 1000, device="cuda"), torch.tensor([5, 5, 6], device="cuda"), torch.tensor([0, 50, 0], device="cuda")
    y = elements.drop(x, 0.3, seeds, cursor, 4)
    assert abs(float((y > 0).float().mean()) - 0.7) < 0.005 and float(y.max()) == pytest.approx(1 / 0.7)
    assert torch.equal(y, elements.drop(x, 0.3, seeds, cursor, 4)) and not torch.equal(y, elements.drop(x, 0.3, seeds, cursor, 5))
    assert all(0.3 < float((y[a] == y[b]).float().mean()) < 0.7 for a, b in ((0, 1), (0, 2)))


def test_columns_on_the_device_are_those_on_the_cpu():
    layers = [Layer("a", 0, 7), Layer("b", 7, 90_000), Layer("d", 100_000, 100_001)]
    known = draw(100_001, dtype=torch.float32) * 0.05
    rows = known + draw(4, 100_001, dtype=torch.float32, seed=1) * torch.tensor([1e-4, 1e-2, 1.0, 0.0], device="cuda").unsqueeze(1)
    torch.testing.assert_close(columns.norms(rows, layers).cpu(), columns.norms(rows.cpu(), layers), rtol=1e-12, atol=0)
    found, wanted = columns.divergences(rows, known, layers).cpu(), columns.divergences(rows.cpu(), known.cpu(), layers)
    torch.testing.assert_close(found[:3, :2], wanted[:3, :2], rtol=2e-5, atol=0)
    assert bool((found[3] == 0).all()) and bool((found[:, 2] == 0).all())


def test_noise_has_the_planned_scale_in_each_layer_and_no_other():
    layers, keys = [Layer("a", 0, 200_000), Layer("b", 200_000, 500_000)], [Key(1).at("noise", k) for k in range(3)]
    sigma = torch.tensor([[0.5, 2.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    rows = torch.zeros(3, 500_001, device="cuda")
    drawn = columns.perturb(rows, layers, sigma, keys).cpu()
    again = torch.zeros_like(rows)
    columns.perturb(again, layers, sigma, keys)
    assert torch.equal(rows, again) and not rows[2].any() and not rows[1, :200_000].any() and not rows[:, -1].any()
    for k, j in ((0, 0), (0, 1), (1, 1)):
        part = rows[k, layers[j].start : layers[j].stop].double()
        assert float(part.std()) == pytest.approx(float(sigma[k, j]), rel=0.01) and float(drawn[k, j]) == pytest.approx(float(part.norm()), rel=1e-6)
    assert abs(float(torch.corrcoef(rows[:2, 200_000:500_000])[0, 1])) < 0.01


STEP = Training(batch=2000, epochs=1, lr=0.05)  # one step: what follows a step in float32 soon depends on its last bits
CASES = {
    "cnn": dict(model="cnn-small", training=STEP),
    "cnn, many steps": dict(model="cnn-small"),
    "uneven": dict(model="cnn-small", partition=Dirichlet(alpha=0.3), training=STEP),
    "augmented": dict(model="cnn-small", training=replace(STEP, augment=True)),
    "BatchNorm": dict(model="resnet18", active=3, training=STEP),
    "GroupNorm": dict(model="resnet18", norm="group", active=3, training=STEP),
}


def run(recipe, engine, count=1):
    work, _ = experiment.prepare(recipe)
    running, start = engine(work), begin(work)
    try:
        return start.current, list(federate(work, running, start, count))[-1]
    finally:
        running.close()


@pytest.mark.parametrize("case", CASES)
def test_the_stacked_engine_trains_as_the_plain_one_does_in_float64(recipe, case):
    recipe = replace(recipe, device="cuda", method=NoNoise(), **CASES[case])
    start, wanted = run(replace(recipe, precision="float64"), Sequential)
    step = wanted.state.current - start.double()
    for precision, limit in (("float64", 1e-8), ("float32", 1e-3), ("bf16", 0.2)):
        _, found = run(replace(recipe, precision=precision), Stacked)
        assert far(found.state.current - start.double(), step) < limit, precision
        assert torch.equal(found.state.counts, wanted.state.counts) and torch.allclose(found.losses, wanted.losses, rtol=0.02)


def test_a_run_on_the_device_repeats_bit_by_bit(recipe):
    recipe = replace(recipe, device="cuda", model="resnet18", active=3, dropout=None, method=LaDP())
    (_, one), (_, other) = (run(recipe, Stacked, 2) for _ in range(2))
    assert torch.equal(one.state.current, other.state.current)


def test_a_loss_that_is_not_finite_is_named_whatever_the_method_says(recipe):
    with pytest.raises(Problem, match=r"client \d+, round 1: the training loss is .* layer"):
        run(replace(recipe, device="cuda", method=LaDP(), training=Training(lr=1e30, clip=1e30)), Stacked)


@pytest.mark.parametrize("name,options", [("cnn-small", {}), ("cnn-small", {"norm": "group"}), ("resnet18", {"norm": "group"})])
@pytest.mark.parametrize("precision,limit", [("float64", 1e-9), ("float32", 2e-2), ("bf16", 0.1)])
def test_clipped_sums_on_the_device_are_those_on_the_cpu(name, options, precision, limit):
    with Key(0).reign():
        model = models.create(name, channels=1, size=8, **options).double()
    layout, layers = Layout.of(model), Layout.of(model).layers()
    images = normalise(torch.randint(256, (23, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)), torch.float64)
    labels, scales = torch.arange(23) % 10, torch.full((4, len(layers)), 0.2)
    for owners in ((torch.arange(23) * 7) % 4, torch.tensor([0] * 20 + [1, 2, 2]), torch.zeros(23, dtype=torch.int64)):
        wanted, told = clipped_sums(model.cpu().double(), images, labels, owners, 4, layout, layers, scales)
        dtype = torch.float64 if precision == "float64" else torch.float32
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            found, facts = clipped_sums(model.to("cuda", dtype), images.to("cuda", dtype), labels.cuda(), owners, 4, layout, layers, scales)
        assert far(found.cpu(), wanted) < limit and torch.allclose(facts[:, 0].cpu(), told[:, 0], rtol=limit)


@pytest.mark.parametrize("precision,limit", [("float64", 1e-9), ("float32", 2e-2), ("bf16", 0.1)])
def test_a_captured_step_of_clients_with_weights_of_their_own_gives_what_they_get_one_by_one(precision, limit):
    with Key(0).reign():
        model = models.create("cnn-small", channels=1, size=8, norm="group").cuda().double()
    layout, layers = Layout.of(model), Layout.of(model).layers()
    rows = layout.read(model) * torch.tensor([1.0, 0.9, 1.1], device="cuda", dtype=torch.float64).unsqueeze(1)
    images = normalise(torch.randint(256, (3, 7, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).flatten(0, 1).cuda(), torch.float64)
    labels, mask, scales = torch.arange(21, device="cuda").view(3, 7) % 10, torch.ones(3, 7, device="cuda"), torch.full((3, len(layers)), 0.2)
    mask[1, 4:] = 0
    wanted = []
    for k in range(3):
        layout.write(rows[k], model)
        own = slice(7 * k, 7 * k + int(mask[k].sum()))
        wanted.append(clipped_sums(model, images[own], labels.flatten()[own], torch.zeros(own.stop - own.start, dtype=torch.int64), 1, layout, layers, scales[:1])[0])
    dtype = torch.float64 if precision == "float64" else torch.float32
    model, rows, images = model.to(dtype), rows.to(dtype), images.to(dtype).unflatten(0, (3, 7))
    geometry, graph, side = Geometry.of(layout, layers, scales, 3, images.device), torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            return stacked_step(model, rows, images, labels, mask, layout, geometry)

    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found, _ = step()
    graph.replay()
    assert far(found, torch.cat(wanted)) < limit
