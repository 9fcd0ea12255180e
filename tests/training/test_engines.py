"""The fast engines give what the plain one gives."""

import os
import resource
import signal
from dataclasses import replace

import pytest
import torch

from ladp import training
from ladp.errors import Problem
from ladp.federation import begin, federate
from ladp.mechanisms import Full, LaDP, NoNoise
from ladp.privacy.mechanism import Training
from ladp.training.parallel import Parallel
from ladp.training.sequential import Sequential
from ladp.training.work import refuse_nan

CASES = {
    "plain": dict(method=NoNoise()),
    "ladp by module, BatchNorm noised too": dict(method=LaDP(layers="module", state="all"), norm="batch"),
    "dropout and augmentation": dict(method=Full(), dropout=0.4, training=Training(batch=20, augment=True)),
    "uneven clients": dict(method=LaDP(), partition="dirichlet"),
}


def rounds(work, engine, count=3):
    try:
        return [(r.state, r.losses, r.receipt, engine.evaluate(r.state.current, r.state.counts)) for r in federate(work, engine, begin(work), count)]
    finally:
        engine.close()


def with_case(recipe, case):
    from ladp.data.partition import create

    options = dict(CASES[case])
    if "partition" in options:
        options["partition"] = create(options["partition"], alpha=0.5)
    return replace(recipe, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("workers", [1, 3])
def test_parallel_and_sequential_rounds_are_the_same_to_the_last_bit(recipe, make_work, case, workers):
    work = make_work(with_case(recipe, case), workers=workers)
    for (one, losses, receipt, tested), (other, losses2, receipt2, tested2) in zip(rounds(work, Sequential(work)), rounds(work, Parallel(work))):
        assert torch.equal(one.current, other.current) and torch.equal(one.counts, other.counts)
        assert torch.equal(losses, losses2) and tested[0] == tested2[0] and tested[1] == pytest.approx(tested2[1])
        assert all(torch.equal(a.nan_to_num(-1), b.nan_to_num(-1)) for a, b in zip(vars(receipt).values(), vars(receipt2).values()))


def test_a_worker_that_is_killed_is_named_with_the_remedy(recipe, make_work):
    work = make_work(recipe, workers=2)
    engine = Parallel(work)
    events = federate(work, engine, begin(work), 5)
    next(events)
    os.kill(engine.workers[0][0].pid, signal.SIGKILL)
    with pytest.raises(Problem, match="worker process ended with exit code -9.*ladp resume"):
        list(events)
    engine.close()


@pytest.mark.parametrize("engine", ["sequential", "parallel"])
def test_a_loss_that_is_not_finite_stops_the_run_and_names_client_round_and_layer(recipe, make_work, engine):
    work = make_work(replace(recipe, method=NoNoise(), training=Training(lr=1e30, clip=1e30)))
    running = training.start(work, engine)
    with pytest.raises(Problem, match=r"client \d+, round 1: the training loss is .* layer .*'features.0.0.weight'.*learning rate"):
        list(federate(work, running, begin(work), 3))
    running.close()


def test_only_what_is_not_finite_is_refused(recipe, make_work, see):
    work = make_work(recipe)
    row = torch.full((work.layout.size,), 3e38)
    refuse_nan(work, see(work.layout, row), 7, 1e300, row)
    with pytest.raises(Problem, match="client 7, round 1: the training loss is inf and its weights are still finite"):
        refuse_nan(work, see(work.layout, row), 7, float("inf"), row)


def test_too_little_shared_memory_is_one_line_with_the_remedy(recipe, make_work):
    work, before = make_work(recipe), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(Problem, match="shared memory .* has no room for .* bytes.*--shm-size=2g.*--engine sequential"):
            Parallel(work)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_auto_takes_the_parallel_engine_on_a_cpu():
    assert training.settle("auto", "cpu", "auto") == ("parallel", "cpu", "float32")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_missing_cuda_is_said_with_the_remedy():
    with pytest.raises(Problem, match="no CUDA device: use --device cpu"):
        training.settle("auto", "cuda", "auto")


@pytest.mark.parametrize("engine,device,precision,words", [("paralel", "cpu", "auto", "did you mean 'parallel'"), ("auto", "tpu", "auto", "unknown device 'tpu'"), ("auto", "cpu", "fp32", "unknown precision 'fp32'")])
def test_unknown_engines_devices_and_precisions_are_refused(engine, device, precision, words):
    with pytest.raises(Problem, match=words):
        training.settle(engine, device, precision)
