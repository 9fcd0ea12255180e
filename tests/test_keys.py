import torch

from ladp.keys import Key


def test_the_same_address_gives_the_same_numbers_and_another_one_others():
    draw = lambda key: torch.randn(5, generator=key.generator()).tolist()  # noqa: E731
    assert draw(Key(1).at("noise", 3, 7)) == draw(Key(1).at("noise", 3).at(7))
    others = [Key(2).at("noise", 3, 7), Key(1).at("noise", 7, 3), Key(1).at("noise", 37), Key(1).at("noise", "3", 7)]
    assert all(draw(key) != draw(Key(1).at("noise", 3, 7)) for key in others)


def test_an_address_that_reigns_gives_torch_its_numbers_and_then_the_old_ones_back():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    with Key(0).at("dropout").reign():
        first = torch.rand(3)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(9)
    with Key(0).at("dropout").reign():
        assert torch.equal(torch.rand(3), first)


def test_numpy_integers_in_an_address_mean_the_same_as_plain_ones():
    import numpy as np

    assert Key(np.int64(3)).at("order", np.int64(1)).integer() == Key(3).at("order", 1).integer()
