"""What each party could learn of a client: by hand for two and three sites, and the same in live use and in `tune`."""

import math
from dataclasses import replace

import numpy as np
import pytest
from live_client import task
from test_live import in_one_process

import pfpne
from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.fed1_ucb import ArmMeans, SurvivingArms
from pfpne.algorithms.pf_pne import Kept, KeptIndex, NodeMeans
from pfpne.algorithms.pf_pne_plus import DepthStatistics, SharedStatistics
from pfpne.algorithms.secure import SECURED, Masked, MaskedStatistics, Revealed, secured
from pfpne.disclosure import ONE_SITE, OTHER_SITES, SERVER, Disclosure, what_each_could_learn
from pfpne.fixed_point import precision, to_fixed
from pfpne.live import LiveClient, LiveServer, drive
from pfpne.paths import INPUT_ROOT as CHECKOUT


def exchanges(M: int) -> list:
    """Two of pf-pne: the root, pulled once by each, and two nodes pulled four times, one of which is kept."""
    root, two = NodeMeans(0, [0.5]), NodeMeans(1, [0.2, 0.8])
    messages = [(1, "up", m, root) for m in range(M)] + [(1, "down", m, Kept(0, [1], [0.5], [9.0])) for m in range(M)]
    messages += [(9, "up", m, two) for m in range(M)] + [(9, "down", m, Kept(1, [2], [0.8], [4.0])) for m in range(M)]
    return messages


def rows(table) -> dict[str, list]:
    return {who: [None if math.isnan(x) else x for x in values] for who, *values in table.itertuples(index=False)}


@pytest.mark.parametrize(("M", "one"), [(2, [2, 1, 2.5, 1, 2]), (3, [0, None, None, 0, 2])])
def test_by_hand(M, one):
    """Means, fewest and median rewards in them, single ones, other numbers. The server: 1 of 1 reward, 2 of 4."""
    learned = rows(what_each_could_learn(exchanges(M), M))
    assert learned == {SERVER: [3, 1, 4, 1, 0], ONE_SITE: one, OTHER_SITES: [2, 1, 2.5, 1, 2]}


def test_messages_without_an_answer_are_of_an_exchange_each():
    messages = [(1, "up", 0, NodeMeans(0, [0.5])), (9, "up", 0, NodeMeans(1, [0.25]))]
    assert rows(what_each_could_learn(messages, 2))[SERVER] == [2, 1, 4.5, 1, 0]  # means of 1 and of 8 rewards


def test_one_client_alone_has_nobody_to_tell():
    assert rows(what_each_could_learn(exchanges(1), 1))[OTHER_SITES] == [0, None, None, 0, 2]


def test_without_noise_a_mean_of_any_number_is_a_single_reward():
    assert rows(what_each_could_learn(exchanges(3), 3, exact=True))[OTHER_SITES] == [2, 1, 1, 2, 2]


def masked(header: int, *means: float) -> list[Masked]:
    """What three clients send, of these means of five rewards over them: masks that cancel, and sums in fixed point."""
    masks = np.random.default_rng(0).integers(0, 2**62, (2, len(means)))
    rows = [*masks, to_fixed(15 * np.array(means), precision(5, 3)) - masks.sum(axis=0)]
    return [Masked(header, row & (2**62 - 1)) for row in rows]


def test_masked_means_are_nothing_to_the_server():
    """Of the sum the others compute a part, and whether it is 0 or 1 is told to no one else."""
    down = Kept(1, [2], [0.8], [4.0])
    messages = [(10, "up", m, up) for m, up in enumerate(masked(1, 0.3, 0.8))]
    messages += [(10, "down", m, down) for m in range(3)]
    assert rows(what_each_could_learn(messages, 3)) == {
        SERVER: [0, None, None, 0, 0],
        ONE_SITE: [0, None, None, None, 1],
        OTHER_SITES: [1, 5, 5, None, 1],
    }
    shared = SharedStatistics(1, [2], [0.3, 0.8], [0.1, 0.1, 0], [3], [1])
    up = [MaskedStatistics(1, message.masked, [7, 8, 9]) for message in masked(1, 0.3, 0.8)]
    messages = [(10, "up", m, message) for m, message in enumerate(up)] + [(10, "down", m, shared) for m in range(3)]
    assert rows(what_each_could_learn(messages, 3)) == {
        SERVER: [0, None, None, 0, 0],
        ONE_SITE: [0, None, None, None, 4],
        OTHER_SITES: [2, 5, 5, None, 4],
    }


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_mean_of_0_or_1_tells_every_single_reward_behind_it(end):
    """Ten pulls of two nodes: at the first the mean of client 0 is at the end, at the second all are."""
    own = {0: [end, end], 1: [0.4, end], 2: [0.2, end]}
    answer = Kept(1, [1, 2], [(end + 0.4 + 0.2) / 3, end], [1.0, 1.0])
    messages = [(10, "up", m, NodeMeans(1, means)) for m, means in own.items()]
    messages += [(10, "down", m, answer) for m in own]
    learned = rows(what_each_could_learn(messages, 3))
    assert learned == {SERVER: [2, 5, 5, 10, 0], ONE_SITE: [1, 5, 5, 5, 2], OTHER_SITES: [2, 5, 5, 10, 2]}
    mean = (end + 0.4 + 0.2) / 3
    messages = [(10, "up", m, up) for m, up in enumerate(masked(1, mean, end))] + [(10, "down", 0, answer)]
    learned = rows(what_each_could_learn(messages, 3))
    assert learned == {SERVER: [1, 5, 5, 5, 0], ONE_SITE: [1, 5, 5, None, 2], OTHER_SITES: [2, 5, 5, None, 2]}
    messages = [(10, "up", m, up) for m, up in enumerate(masked(1, mean, end))] + [(10, "down", 0, KeptIndex(1, [2]))]
    learned = rows(what_each_could_learn(messages, 3))  # the server has the sums, whatever it says of them
    assert learned[SERVER] == [1, 5, 5, 5, 0] and learned[OTHER_SITES][:4] == [0, None, None, 0]


def test_a_site_takes_its_own_mean_off_and_sees_whether_the_others_are_all_at_an_end():
    up = {0: NodeMeans(1, [0.0]), 1: NodeMeans(1, [0.0]), 2: NodeMeans(1, [0.6])}
    disclosure = Disclosure(3)
    disclosure.add(up, dict.fromkeys(up, Kept(1, [1], [0.2], [1.0])), 5)
    assert disclosure.singles == {SERVER: [5, 5, 0], ONE_SITE: [5, 5, 0], OTHER_SITES: [5, 5, 0]}
    assert [counts.total() for counts in disclosure.means[ONE_SITE]] == [1, 1, 0]


def test_of_two_sites_a_mean_at_an_end_is_counted_as_the_other_ones():
    up = {0: NodeMeans(1, [0.0]), 1: NodeMeans(1, [0.4])}
    disclosure = Disclosure(2)
    disclosure.add(up, dict.fromkeys(up, Kept(1, [1], [0.2], [1.0])), 5)
    assert disclosure.singles == {SERVER: [5, 0], ONE_SITE: [5, 0], OTHER_SITES: [5, 0]}
    disclosure = Disclosure(2, ends=(-1.0, 0.4))
    disclosure.add(up, dict.fromkeys(up, Kept(1, [1], [0.2], [1.0])), 5)
    assert disclosure.singles[OTHER_SITES] == [0, 5]


def test_a_mean_over_some_clients_tells_of_those():
    disclosure = Disclosure(3)
    disclosure.add(dict.fromkeys((0, 2), NodeMeans(0, [0.5])), dict.fromkeys((0, 2), Kept(0, [1], [0.5], [1.0])), 7)
    assert [counts[7] for counts in disclosure.means[ONE_SITE]] == [1, 0, 1]
    disclosure.add_sent(1, NodeMeans(0, [0.5]))  # late: the server has it all the same
    disclosure.add_sent(1, NodeMeans(0, [0.5]))
    assert [counts[7] for counts in disclosure.means[SERVER]] == [1, 1, 1]
    again = Disclosure(3)
    again.restore(disclosure.state())
    assert again.table().equals(disclosure.table())


def test_a_site_that_goes_between_the_rounds_does_not_end_the_count():
    """With masks and a quorum, four of five give shares, and five are in the sum; fed-pne sends back no mean."""
    disclosure = Disclosure(5)
    up = {m: Revealed(1, np.zeros(100, int)) for m in range(4)}
    disclosure.add(up, dict.fromkeys(range(5), KeptIndex(1, [1])), 5, range(5), np.array([1.0]))
    assert disclosure.singles == {SERVER: [5] * 5, ONE_SITE: [0] * 5, OTHER_SITES: [0] * 5}


def test_indices_alone_tell_no_site_a_mean_and_variances_are_other_numbers():
    disclosure = Disclosure(2)
    up = dict.fromkeys((0, 1), DepthStatistics(0, [0.5], [0.1], [0]))
    disclosure.add(up, {0: KeptIndex(0, [1])}, 8)
    assert rows(disclosure.table()) == {
        SERVER: [1, 8, 8, 0, 1],
        ONE_SITE: [0, None, None, 0, 0],
        OTHER_SITES: [0, None, None, 0, 0],
    }


def test_the_means_of_a_client_that_weighs_less_are_computed_by_all_the_others_too():
    """Each knows its own weight, from its variance and the limit, and all are told the sum: 1 + 1 + 1/4."""
    own = {0: ([0.5, 0.25], 0.01), 1: ([0.75, 0.5], 0.02), 2: ([1.0, 0.0], 0.8)}
    up = {m: DepthStatistics(1, means, [variance], [0]) for m, (means, variance) in own.items()}
    weighted = [(0.5 + 0.75 + 0.25) / 2.25, (0.25 + 0.5) / 2.25]
    disclosure = Disclosure(3)
    disclosure.add(up, dict.fromkeys(up, SharedStatistics(1, [1], weighted, [0.1, 0, 0.2], [2.25], [1])), 8)
    assert rows(disclosure.table()) == {
        SERVER: [2, 8, 8, 16, 1],
        ONE_SITE: [0, None, None, 0, 4],
        OTHER_SITES: [2, 8, 8, 16, 4],
    }


@pytest.mark.parametrize("M", [2, 3])
def test_of_two_sites_each_computes_all_of_the_other_and_so_do_all_but_one(M):
    """pf-pne+ sends back the mean of every node: nothing that was sent to the server stays from the others."""
    problem = pfpne.make_problem("garland", M, shift=0.1, noise="bernoulli")
    run = pfpne.simulate("pf-pne+", problem, 300, messages=True)
    known = rows(run.disclosure)
    assert known[OTHER_SITES][:4] == known[SERVER][:4] and known[SERVER][0] == sum(
        message.values[0].size for _, way, m, message in run.messages if way == "up" and m == 0
    )
    assert known[ONE_SITE][:4] == known[OTHER_SITES][:4] if M == 2 else known[ONE_SITE][0] < known[OTHER_SITES][0]
    with pytest.raises(ValueError, match="messages must be kept for this"):
        _ = pfpne.simulate("pf-pne+", problem, 9).disclosure


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne", "pf-pne+", "fed1-ucb"])
def test_with_masks_the_server_learns_no_mean_and_all_others_none_of_fewer_rewards(name):
    pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    problem, settings = pfpne.make_problem("garland", 4, shift=0.1, noise=0.1), {}
    if name == "fed1-ucb":
        settings = {"c_pulls": 1.0, "sigma": 0.15}
    known = rows(pfpne.simulate(secured(name), problem, 600, messages=True, **settings).disclosure)
    assert known[SERVER] == [0, None, None, 0, 0] and known[ONE_SITE][0] == 0
    assert known[OTHER_SITES][0] == 0 if name in ("fed-pne", "fed1-ucb") else known[OTHER_SITES][1] >= 5
    assert known[OTHER_SITES][3] == (0 if known[OTHER_SITES][0] == 0 else None)


@pytest.mark.parametrize("name", ["pf-pne", "fed-pne", "pf-pne+"])
def test_with_masks_and_binary_rewards_the_sums_of_0_and_of_all_are_what_the_server_learns(name):
    """Counted here from the means of each client, in the same run without masks."""
    pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    problem = pfpne.make_problem("himmelblau", 4, shift=0.1, noise="bernoulli")
    hidden = pfpne.simulate(secured(name), problem, 400, messages=True)
    row = ALGORITHMS[name]
    pulled_more = Algorithm(SECURED[name][0], row.make_server_and_clients, row.up_kinds, row.down_kinds)
    plain = pfpne.simulate(pulled_more, problem, 400, messages=True)
    assert np.array_equal(hidden.regret, plain.regret)
    up = {}
    for _, way, _, message in plain.messages:
        if way == "up":
            up.setdefault(message.header, []).append(message.means)
    at_ends = sum(np.isin(np.mean(means, axis=0), (0, 1)).sum() for means in up.values())
    known, openly = rows(hidden.disclosure), rows(plain.disclosure)
    assert known[SERVER][0] == at_ends > 0 and known[SERVER][3] >= 5 * at_ends
    assert known[ONE_SITE][0] <= openly[ONE_SITE][0] and known[OTHER_SITES][:3] == openly[OTHER_SITES][:3]


@pytest.mark.parametrize("masked", [False, True])
def test_differences_of_the_phases_of_fed1_ucb_are_counted(masked):
    """Rewards of 1 in odd phases and of 0 in even ones: the means of all phases so far are not at an end."""
    name = "fed1-ucb"
    if masked:
        pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
        name = secured(name)
    run = pfpne.make_federation(name, task(3, 300), c_pulls=1.0)
    disclosure = Disclosure(3)
    run.on_mail, arms, pulls = disclosure.mail, 20, int(math.log(300))
    for phase in (1, 2):
        for m, batch in run.ask():
            assert len(batch.points) == arms and set(batch.counts.tolist()) == {pulls}
            run.tell(m, np.full(batch.size, phase % 2.0))
        again = Disclosure(3)
        again.restore(disclosure.state())
        assert rows(again.table())[SERVER] == [phase * arms, pulls, pulls, phase * arms * pulls, 0]


def test_a_count_that_was_saved_goes_on_and_who_was_away_has_the_mean_of_all_phases():
    """Five rewards of 1 at each of two arms, then five of 0; client 2 sends in the second phase alone."""
    disclosure = Disclosure(3)
    for phase, mean, senders in ((1, 1.0, (0, 1)), (2, 0.5, (0, 1, 2))):
        up, answer = {m: ArmMeans(phase, [mean, mean]) for m in senders}, SurvivingArms(phase, [0, 1])
        disclosure.add(up, dict.fromkeys(up, answer), 5 * phase)
        saved, disclosure = disclosure.state(), Disclosure(3)
        disclosure.restore(saved)
    disclosure.add_sent(2, ArmMeans(2, [0.5, 0.5]))  # once more
    assert disclosure.singles[SERVER] == [20, 20, 0]
    assert [counts.total() for counts in disclosure.means[SERVER]] == [4, 4, 2]


def test_in_live_use_it_is_as_in_a_simulation_and_is_kept(tmp_path):
    in_one_process("pf-pne", tmp_path, 40)
    server = LiveServer("pf-pne", task(3, 40), tmp_path / "server", deadline=600)
    run = pfpne.make_federation("pf-pne", task(3, 40))
    disclosure = Disclosure(3, exact=True)
    run.on_mail = disclosure.mail
    while run.running:
        for m, batch in run.ask():
            run.tell(m, np.repeat([0.5 + math.sin(7 * x[0] + m) / 3 for x in batch.points], batch.counts))
    assert server.disclosure().equals(disclosure.table()) and server.disclosure()["means"].tolist()[0] > 5


@pytest.mark.parametrize("noise", [0, 0.1, "bernoulli", None])
def test_in_live_use_a_mean_is_a_single_reward_only_if_there_is_no_noise(noise, tmp_path):
    """Each client pulls the root twice; a noise that is not known may be there."""
    server = LiveServer("pf-pne", replace(task(3, 9), noise=noise), tmp_path, deadline=600, c=1.0)
    for m in range(3):
        server.take(m, NodeMeans(0, [0.5]).to_json(server.run_tag))
    assert rows(server.disclosure())[SERVER] == ([1, 1, 1, 1, 0] if noise == 0 else [1, 2, 2, 0, 0])


@pytest.mark.parametrize("name", ["pf-pne", "fed1-ucb"])
def test_in_live_use_with_masks_sums_are_read_as_the_server_reads_them(name, tmp_path):
    """With a noise of known width, fixed point is coarser than for rewards in [0, 1]; sums of ones are ones there."""
    pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    known, settings = {}, {"c_pulls": 1.0, "sigma": 0.5} if name == "fed1-ucb" else {}
    for reward_range in (None, (0.0, 1.0)):
        plan, answers = replace(task(3, 150), noise=0.7, reward_range=reward_range), []
        folder = tmp_path / str(reward_range)
        server = LiveServer(name, plan, folder / "server", deadline=600, secure=True, **settings)
        sites = [LiveClient(name, plan, m, lambda x: 1.0, folder / str(m), secure=True, **settings) for m in range(3)]
        drive(
            server,
            lambda m, text, sites=sites, answers=answers: answers.append((m, sites[m].answer(text))),
            lambda answers=answers: [answers.pop(0)] if answers else [],
        )
        known[reward_range] = rows(server.disclosure())
    assert known[None] == known[0.0, 1.0] and known[None][SERVER][3] > 20


def test_tune_reports_it():
    functions, space = [lambda p: p["x"], lambda p: 1 - p["x"]], {"x": pfpne.Float(0, 1)}
    binary = [lambda p: float(p["x"] > 0.4), lambda p: float(p["x"] > 0.3)]  # exact scores are not shared beyond one
    known = rows(pfpne.tune(binary, space, n_evaluations=40, algorithm="pf-pne+", progress=False).disclosure)
    assert known[SERVER][:4] == known[ONE_SITE][:4] == known[OTHER_SITES][:4] and known[SERVER][0] > 2
    known = rows(pfpne.tune(functions, space, n_evaluations=12, algorithm="gp-shared", progress=False).disclosure)
    assert known[SERVER][:4] == [0, None, None, 0] and known[SERVER][4] > 0  # beliefs of a model, and no score
    plan = {"n_evaluations": 30, "algorithm": "fed-pne", "noise": 0, "c": 0.5, "progress": False}
    known = rows(pfpne.tune(functions, space, **plan).disclosure)
    assert known[SERVER][:4] == [known[SERVER][0], 1, 1, known[SERVER][0]]  # without noise each mean is a reward


def test_the_page_on_trust_shows_what_comes_out():
    pytest.importorskip("cryptography", reason="pfpne[secure] is not installed")
    page = (CHECKOUT / "docs" / "trust.md").read_text(encoding="utf-8")
    problem = pfpne.make_problem("garland", n_clients=3, shift=0.1, noise="bernoulli")
    for name, algorithm in (("pf-pne", "pf-pne"), ("pf-pne with masks", secured("pf-pne"))):
        for who, values in rows(pfpne.simulate(algorithm, problem, 1000, messages=True).disclosure).items():
            cells = ["none" if x is None else f"{x:g}" for x in values[:3]]
            cells.append("unknown" if values[3] is None else f"{values[3]:g}")
            assert f"| {name} | {who} | {' | '.join(cells)} |" in page
    pulled_more = Algorithm(SECURED["pf-pne"][0], ALGORITHMS["pf-pne"].make_server_and_clients, (NodeMeans,), (Kept,))
    openly = rows(pfpne.simulate(pulled_more, problem, 1000, messages=True).disclosure)
    one, others = (f"{openly[who][3]:g}" for who in (ONE_SITE, OTHER_SITES))
    sentence = f"one other site knows {one} single rewards, and all other sites together know {others}."
    assert sentence in page and openly[OTHER_SITES][1] == 5
