import random
import tracemalloc
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
import torch

from ladp import data
from ladp.data.partition import PARTITIONS, create, describe
from ladp.errors import Problem
from ladp.keys import Key

LABELS = np.random.default_rng(3).permutation(np.repeat(np.arange(10), 300))
WRITERS = np.random.default_rng(4).integers(0, 40, len(LABELS)) * 3
EVERY = sorted(PARTITIONS)
DISJOINT = sorted(set(EVERY) - {"draw", "isolation-overlap"})
WHOLE = ["iid", "isolation", "dirichlet", "quantity"]
CURIOUS = ["isolation", "isolation-overlap", "labels", "quantity"]


def split(name, clients=20, seed=1, over=LABELS, **options):
    return create(name, **options).split(over, clients, Key(seed), WRITERS)


def held(parts, labels=LABELS, classes=10):
    return np.stack([np.bincount(labels[parts.indices(i)], minlength=classes) for i in range(len(parts))])


@pytest.mark.parametrize("name", EVERY)
def test_sizes_are_what_the_clients_hold(name):
    parts = split(name)
    assert len(parts) == 20 and [len(parts.indices(i)) for i in range(20)] == parts.sizes().tolist()
    assert parts.sizes().min() >= 1


@pytest.mark.parametrize("name", EVERY)
def test_records_are_int64_in_range_and_different_within_a_client(name):
    parts = split(name)
    for i in range(20):
        own = parts.indices(i)
        assert own.dtype == np.int64 and 0 <= own.min() <= own.max() < len(LABELS) and len(np.unique(own)) == len(own)


@pytest.mark.parametrize("name", DISJOINT)
def test_disjoint_partitions_share_no_record(name):
    every = np.concatenate([split(name).indices(i) for i in range(20)])
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize("name", WHOLE)
def test_partitions_of_everything_use_every_record(name):
    assert split(name).sizes().sum() == len(LABELS)


@pytest.mark.parametrize("name", EVERY)
def test_the_same_key_gives_the_same_split_and_another_seed_another(name):
    first, again, other = split(name), split(name), split(name, seed=2)
    assert all(np.array_equal(first.indices(i), again.indices(i)) for i in range(20))
    assert any(not np.array_equal(first.indices(i), other.indices(i)) for i in range(20))


@pytest.mark.parametrize("name", EVERY)
def test_no_global_random_state_is_read_or_moved(name):
    first, states = split(name).indices(7), []
    for seed in (0, 1):
        random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
        before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
        assert np.array_equal(split(name).indices(7), first)
        states.append(before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()))
    assert all(states)


@pytest.mark.parametrize("name", EVERY)
def test_torch_labels_give_the_same_split_as_numpy_ones(name):
    tensors = create(name).split(torch.from_numpy(LABELS), 20, Key(1), torch.from_numpy(WRITERS))
    assert all(np.array_equal(split(name).indices(i), tensors.indices(i)) for i in range(20))


@pytest.mark.parametrize("name", CURIOUS)
@pytest.mark.parametrize("private, curious", [(-1, -1), (0, 0), (4, 11)])
def test_only_the_curious_client_is_barred_from_the_private_class(name, private, curious):
    parts = split(name, private=private, curious=curious)
    counts = held(parts)
    assert parts.curious == curious % 20 and counts[parts.curious, private] == 0
    assert counts[:, private].sum() > 0 and counts[parts.curious].sum() > 0


@pytest.mark.parametrize("name", ["isolation", "isolation-overlap"])
def test_under_isolation_everyone_else_has_every_class(name):
    counts = held(split(name))
    assert (counts[:-1] > 0).all() and (counts[-1, :-1] > 0).all()


@pytest.mark.parametrize("name", ["iid", "isolation"])
@pytest.mark.parametrize("clients", [2, 7, 20, 1500, 3000])
def test_equal_shards_differ_by_at_most_one_record(name, clients):
    sizes = split(name, clients).sizes()
    assert sizes.max() - sizes.min() <= 1 and sizes.sum() == len(LABELS)


def test_the_overlapping_draw_of_cifar_is_the_one_that_was_run():
    labels = np.repeat(np.arange(10), 5000)
    parts = split("isolation-overlap", 100, over=labels)
    assert set(parts.sizes()[:-1]) == {2000} and parts.sizes()[-1] == 1800
    assert held(parts, labels)[:-1].mean(0) == pytest.approx(np.full(10, 200), abs=3)


def test_overlapping_clients_share_as_many_records_as_independent_draws_do():
    parts, n = split("draw", 200, size=300), len(LABELS)
    shared = [len(np.intersect1d(parts.indices(i), parts.indices(i + 1))) for i in range(0, 200, 2)]
    assert np.mean(shared) == pytest.approx(300 * 300 / n, abs=2)


@pytest.mark.parametrize("name", ["draw", "isolation-overlap"])
def test_a_hundred_thousand_registered_clients_cost_almost_nothing(name):
    labels = np.repeat(np.arange(10), 5000)
    tracemalloc.start()
    parts = split(name, 100_000, over=labels)
    sizes, own = parts.sizes(), parts.indices(99_998)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(parts) == 100_000 and sizes[99_998] == len(own) and peak < 5e6


def test_distribution_one_gives_four_labels_three_to_the_curious_and_equal_sizes():
    parts = split("labels")
    counts = held(parts)
    assert ((counts[:-1] > 0).sum(1) == 4).all() and (counts[:-1, -1] > 0).all() and (counts[-1] > 0).sum() == 3
    assert len(set(parts.sizes())) == 1


def test_distribution_one_deals_the_labels_evenly_and_not_in_fixed_groups():
    counts = held(split("labels", 30))
    assert set((counts[:, :-1] > 0).sum(0)) == {10}
    assert len({tuple(np.flatnonzero(row)) for row in counts[:-1]}) > 5


@pytest.mark.parametrize("clients, labels", [(2, 4), (5, 2), (9, 10), (50, 6), (299, 4)])
def test_distribution_one_keeps_its_word_at_other_sizes(clients, labels):
    parts = create("labels", labels=labels).split(LABELS, clients, Key(5))
    counts = held(parts)
    assert len(set(parts.sizes())) == 1 and ((counts > 0).sum(1) == labels - (np.arange(clients) == clients - 1)).all()


def test_distribution_one_uses_most_of_cifar():
    labels = np.repeat(np.arange(10), 5000)
    sizes = split("labels", 100, over=labels).sizes()
    assert sizes.sum() > 0.95 * len(labels)


def test_distribution_two_is_skewed_in_quantity():
    sizes = split("quantity", 100).sizes()
    assert np.median(sizes) < 10 and sizes.max() > 100


def test_a_small_alpha_makes_clients_differ_and_a_large_one_makes_them_alike():
    spread = [(held(split("dirichlet", alpha=alpha)) > 0).sum(1).mean() for alpha in (0.05, 1.0, 1000.0)]
    assert spread[0] < 6 < spread[1] < 10 and spread[2] == 10
    assert split("dirichlet", alpha=1000.0).sizes().std() < 10


@pytest.mark.parametrize("name", ["dirichlet", "quantity"])
@pytest.mark.parametrize("least", [1, 5, 30])
def test_nobody_has_fewer_records_than_least(name, least):
    parts = split(name, 100, alpha=0.01, least=least)
    assert parts.sizes().min() >= least and parts.sizes().sum() == len(LABELS)
    assert name == "dirichlet" or held(parts)[-1, -1] == 0


def test_the_curious_client_gets_its_least_even_when_others_need_all_the_rest():
    labels = np.array([0] * 3 + [1] * 17)
    for seed in range(20):
        parts = create("quantity", least=2).split(labels, 10, Key(seed))
        assert set(parts.sizes()) == {2} and held(parts, labels, 2)[-1].tolist() == [2, 0]


def test_an_empty_client_is_named_with_the_remedy():
    with pytest.raises(Problem, match=r"client \d+ is empty: \d+ of 100 clients have no records; set least to 1"):
        split("quantity", 100, least=0)


@pytest.mark.parametrize("name", sorted(set(DISJOINT) - {"writer"}))
def test_more_clients_than_records_is_refused_with_the_number(name):
    with pytest.raises(Problem, match="3001"):
        split(name, 3001)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("clients", [0, -3])
def test_no_clients_is_refused(name, clients):
    with pytest.raises(Problem, match=f"clients must be at least [12], got {clients}"):
        split(name, clients)


def test_a_writer_is_a_client_with_all_its_records():
    parts, known = split("writer", 40), np.unique(WRITERS)
    for i in range(40):
        assert np.array_equal(parts.indices(i), np.flatnonzero(WRITERS == known[i]))


def test_fewer_clients_than_writers_is_a_choice_of_whole_writers():
    parts = split("writer", 5)
    for i in range(5):
        own = WRITERS[parts.indices(i)]
        assert len(set(own)) == 1 and len(own) == (WRITERS == own[0]).sum()


def test_by_writer_needs_writers_and_enough_of_them():
    with pytest.raises(Problem, match="names none"):
        create("writer").split(LABELS, 5, Key(1))
    with pytest.raises(Problem, match="has 40 writers, got 41 clients"):
        split("writer", 41)


REFUSED = [
    ("dirichlet", {"alpha": 0}, "alpha must be positive and finite, got 0"),
    ("quantity", {"alpha": float("nan")}, "alpha must be positive and finite, got nan"),
    ("dirichlet", {"least": -1}, "least must be 0 or more, got -1"),
    ("dirichlet", {"least": 151}, "least 151 for 20 clients needs 3020 records, there are 3000"),
    ("draw", {"size": 0}, "size must be at least 1, got 0"),
    ("draw", {"size": 3001}, "size must be at most the 3000 training records, got 3001"),
    ("isolation", {"private": 10}, "private must be between -10 and 9, got 10"),
    ("isolation", {"curious": 20}, "curious must be between -20 and 19, got 20"),
    ("isolation-overlap", {"fraction": 0}, r"fraction must be in \(0, 1\], got 0"),
    ("isolation-overlap", {"share": 1.5}, r"share must be in \(0, 1\], got 1.5"),
    ("labels", {"labels": 1}, "labels must be at least 2"),
    ("labels", {"labels": 11}, "labels must be at most 10 for this data set, got 11"),
    ("iid", {"alpha": 1}, "unknown option of partition 'iid' 'alpha'"),
    ("dirichlet", {"alpa": 1}, "did you mean 'alpha'"),
    ("dirichlett", {}, "unknown partition 'dirichlett': did you mean 'dirichlet'"),
]


@pytest.mark.parametrize("name, options, line", REFUSED)
def test_bad_values_are_refused_by_name_and_number(name, options, line):
    with pytest.raises(Problem, match=line):
        split(name, **options)


def test_a_curious_client_that_no_data_can_serve_is_refused():
    with pytest.raises(Problem, match="take more clients"):
        create("isolation").split(np.array([0] + [1] * 19), 2, Key(1))
    with pytest.raises(Problem, match="the curious client 9 can have no record but of private class 1"):
        create("quantity", least=2).split(np.array([0] + [1] * 19), 10, Key(1))


@pytest.mark.parametrize("name", EVERY)
def test_every_partition_is_frozen_and_says_what_it_means(name):
    partition, told = create(name), describe(name)
    assert told["name"] == name and len(told["meaning"]) > 30 and set(told["options"]) == {field.name for field in fields(partition)}
    for option in told["options"]:
        with pytest.raises(FrozenInstanceError):
            setattr(partition, option, 1)


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"writer"}))
def test_the_embedded_digits_can_be_partitioned_every_way(name):
    digits = data.load("digits")
    size = {"size": 70} if name == "draw" else {}
    assert create(name, **size).split(digits.labels, 20, Key(0)).sizes().min() >= 1
