"""Networks with distributions: files, random parameters and simulated data."""

import gzip
import json
import os
import re
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fbed.graphs import (
    DAG,
    ConditionalTable,
    DiscreteNetwork,
    GaussianNetwork,
    GraphError,
    LinearEquation,
    random_dag,
)
from fbed.graphs.discrete import _draw

SIZES = {
    "asia": (8, 8),
    "sachs": (11, 17),
    "child": (20, 25),
    "insurance": (27, 52),
    "alarm": (37, 46),
    "hailfinder": (56, 66),
    "win95pts": (76, 112),
}

BIF = """\
network "small" { // a comment
  property "author = nobody; (really)" ;
}
probability ( wet | rain, sprinkler ) {
  (no, off) 0.0, 1.0;
  (no, on) 0.9, 0.1;
  default 0.95, 0.05;
}
variable rain {
  type discrete [ 3 ] { no, <5mm, "a lot" };
  property position = (1, 2) ;
}
variable sprinkler { type discrete[2] { on off }; }
/* comments may
   span lines */
variable wet { type discrete [ 2 ] { yes, no }; }
probability ( rain ) { table 0.7, 0.2, 0.1; }
probability ( sprinkler rain ) { table 0.4 0.01 0 0.6 0.99 1e0; property x ; }
"""


def data_file(*parts):
    folder = os.environ.get("FBED_DATA_DIR")
    path = Path(folder or "", "bn", *parts)
    if not folder or not path.exists():
        pytest.skip(f"needs {Path('bn', *parts)} in the folder that FBED_DATA_DIR names")
    return path


def bif_file(name):
    return data_file("bif", f"{name}.bif.gz")


@pytest.fixture
def written(tmp_path):
    def write(text, name="small.bif"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def sprinkler(written):
    return DiscreteNetwork.from_bif(written(BIF))


# -- files ---------------------------------------------------------------------------------------------


def test_a_small_bif_file(sprinkler):
    assert sprinkler.dag == DAG([("rain", "wet"), ("sprinkler", "wet"), ("rain", "sprinkler")])
    assert sprinkler.dag.nodes == ("rain", "sprinkler", "wet")  # the order of declaration
    tables = sprinkler.tables
    assert tables["rain"].levels == ("no", "<5mm", "a lot")
    assert tables["wet"].parents == ("rain", "sprinkler")
    assert tables["wet"].probabilities[0, 0].tolist() == [0.9, 0.1]  # (no, on), though (no, off) came first
    assert tables["wet"].probabilities[0, 1].tolist() == [0.0, 1.0]
    assert (tables["wet"].probabilities[1:] == [0.95, 0.05]).all()
    # A table of a variable with parents counts the variable itself slowest.
    assert tables["sprinkler"].probabilities.tolist() == [[0.4, 0.6], [0.01, 0.99], [0.0, 1.0]]
    assert repr(sprinkler) == "DiscreteNetwork(3 nodes, 3 →)"


def test_a_default_is_for_what_is_left_wherever_it_stands(written, sprinkler):
    default = "  default 0.95, 0.05;\n"
    first = changed(default, "").replace("sprinkler ) {\n", f"sprinkler ) {{\n{default}", 1)
    tables = DiscreteNetwork.from_bif(written(first)).tables
    assert (tables["wet"].probabilities == sprinkler.tables["wet"].probabilities).all()


def test_gzip_is_recognised_by_content(written, sprinkler):
    packed = gzip.compress(BIF.encode())
    for name in ("small.bif.gz", "small.bif"):
        assert DAG.from_bif(written(packed, name)) == sprinkler.dag


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_the_known_networks(name):
    network = DiscreteNetwork.from_bif(bif_file(name))
    assert (len(network.dag), network.dag.n_edges) == SIZES[name]
    assert DAG.from_bif(str(bif_file(name))) == network.dag


@pytest.mark.parametrize("name", ["asia", "child", "insurance", "hailfinder"])
def test_rows_of_the_known_networks_stand_where_the_file_has_them(name):
    """Against a reader of one regular expression, which is enough for these files."""
    text = gzip.decompress(bif_file(name).read_bytes()).decode()
    network = DiscreteNetwork.from_bif(bif_file(name))
    rows = 0
    for node, parents, body in re.findall(r"probability \( (\S+) \| ([^)]*) \) \{(.*?)\n\}", text, re.S):
        table = network.tables[node]
        assert table.parents == tuple(parents.split(", "))
        for labels, numbers in re.findall(r"\n  \((.*)\) (.*);", body):
            levels = (network.tables[parent].levels for parent in table.parents)
            at = tuple(known.index(label) for known, label in zip(levels, labels.split(", "), strict=True))
            # The files are rounded to seven decimals or more; rows are rescaled to sum to 1.
            np.testing.assert_allclose(table.probabilities[at], np.fromstring(numbers, sep=","), atol=2e-7)
            rows += 1
    assert rows == sum(table.probabilities[..., 0].size for table in network.tables.values() if table.parents)


@pytest.mark.parametrize("name, size", [("ecoli70", (46, 70)), ("magic-niab", (44, 66))])
def test_gaussian_networks(name, size):
    path = data_file(f"gaussian_{name}.json")
    network = GaussianNetwork.from_json(path)
    assert (len(network.dag), network.dag.n_edges) == size
    content = json.loads(path.read_text())
    assert network.dag.nodes == tuple(content)
    assert all(network.dag.parents(node) == set(fields["parents"]) for node, fields in content.items())
    check_gaussian_moments(network, n=20_000, seed=1)


# -- simulation ----------------------------------------------------------------------------------------


def codes_of(network, columns):
    """The levels as numbers."""
    return {
        node: (columns[node][:, None] == np.array(table.levels)).argmax(axis=1)
        for node, table in network.tables.items()
    }


def fit_of(network, columns, node):
    """Pearson's X² of the counts given the parents against the table, and its degrees of freedom."""
    table, codes = network.tables[node], codes_of(network, columns)
    counts = np.zeros(table.probabilities.shape)
    np.add.at(counts, tuple(codes[name] for name in (*table.parents, node)), 1)
    expected = counts.sum(axis=-1, keepdims=True) * table.probabilities
    assert not counts[expected == 0].any(), f"{node} has a level of probability 0"
    # Pearson's statistic is only close to χ² where enough is expected.
    large = (np.where(table.probabilities > 0, expected, np.inf) > 5).all(axis=-1)
    possible = (table.probabilities > 0) & large[..., None]
    x2 = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    return x2, int(possible.sum() - large.sum())


@pytest.mark.parametrize("name", ["asia", "child", "alarm", "insurance"])
def test_samples_of_the_known_networks_follow_their_tables(name):
    network = DiscreteNetwork.from_bif(bif_file(name))
    columns = network.sample(20_000, seed=0)
    x2, df = np.sum([fit_of(network, columns, node) for node in network.dag.nodes], axis=0)
    assert df >= len(network.dag)
    assert 1e-3 < stats.chi2.sf(x2, df) < 1 - 1e-3  # neither too far nor too close


def test_samples_follow_marginals_and_conditionals(sprinkler):
    n = 80_000
    columns = sprinkler.sample(n, seed=3)
    assert [fit_of(sprinkler, columns, node)[1] for node in columns] == [2, 2, 4]
    for node in columns:
        assert stats.chi2.sf(*fit_of(sprinkler, columns, node)) > 1e-3
    wet = 0.7 * (0.4 * 0.9 + 0.6 * 0) + 0.3 * 0.95  # by hand
    assert np.mean(columns["wet"] == "yes") == pytest.approx(wet, abs=4 * np.sqrt(wet * (1 - wet) / n))


def test_the_check_of_samples_notices_a_wrong_table(sprinkler):
    columns = sprinkler.sample(20_000, seed=0)
    table = sprinkler.tables["wet"]
    off = table.probabilities.copy()
    off[0, 0] = [0.86, 0.14]  # instead of .9 and .1
    other = DiscreteNetwork(sprinkler.tables | {"wet": ConditionalTable(table.levels, table.parents, off)})
    assert stats.chi2.sf(*fit_of(other, columns, "wet")) < 1e-6


def test_impossible_levels_are_never_drawn():
    table = np.array([0.0, *[0.1] * 10, 0.0])  # ten times 0.1 is less than 1 in floating point
    assert _draw(table, [], np.array([0.0, np.nextafter(1, 0)])).tolist() == [1, 10]


@pytest.mark.parametrize("kind", [DiscreteNetwork, GaussianNetwork])
def test_samples_are_seeded_dicts_of_columns(kind):
    dag = random_dag(6, degree=2, seed=1)
    network = kind.random(dag, seed=1)
    columns = network.sample(30, seed=5)
    assert isinstance(columns, dict)
    assert tuple(columns) == dag.nodes
    assert all(column.shape == (30,) for column in columns.values())
    same, other = network.sample(30, np.random.default_rng(5)), network.sample(30, seed=6)
    assert all((same[node] == columns[node]).all() for node in dag.nodes)
    assert any((other[node] != columns[node]).any() for node in dag.nodes)
    assert all(column.size == 0 for column in network.sample(0, seed=0).values())
    assert network.dag == dag


def test_samples_become_data_frames(sprinkler):
    pandas = pytest.importorskip("pandas")
    columns = sprinkler.sample(10, seed=0)
    frame = columns.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["rain", "sprinkler", "wet"]
    assert (frame["rain"].to_numpy() == columns["rain"]).all()


def test_random_discrete_parameters():
    dag = random_dag(8, degree=2, seed=0)
    levels = {node: 2 + i % 3 for i, node in enumerate(dag.nodes)}
    network = DiscreteNetwork.random(dag, seed=2, levels=levels)
    assert {node: len(table.levels) for node, table in network.tables.items()} == levels
    assert network.tables[dag.nodes[1]].levels == ("s0", "s1", "s2")
    x2, df = np.sum([fit_of(network, network.sample(20_000, seed=0), node) for node in dag.nodes], axis=0)
    assert 1e-3 < stats.chi2.sf(x2, df) < 1 - 1e-3
    sharp = DiscreteNetwork.random(dag, seed=2, concentration=0.01)
    assert np.mean([table.probabilities.max(axis=-1).mean() for table in sharp.tables.values()]) > 0.95
    again = DiscreteNetwork.random(dag, seed=2, concentration=0.01)
    assert all((again.tables[v].probabilities == sharp.tables[v].probabilities).all() for v in dag.nodes)


def moments(network):
    """Mean and covariance of x = a + Bx + sd·noise, solved for x."""
    nodes = network.dag.nodes
    B = np.zeros((len(nodes), len(nodes)))
    for i, node in enumerate(nodes):
        for parent, coef in zip(network.equations[node].parents, network.equations[node].coef, strict=True):
            B[i, nodes.index(parent)] = coef
    inverse = np.linalg.inv(np.eye(len(nodes)) - B)
    noise = inverse * [network.equations[node].sd for node in nodes]
    return inverse @ [network.equations[node].intercept for node in nodes], noise @ noise.T


def check_gaussian_moments(network, n, seed):
    columns = np.column_stack(list(network.sample(n, seed).values()))
    mean, covariance = moments(network)
    variance = np.diag(covariance)
    z_mean = (columns.mean(axis=0) - mean) / np.sqrt(variance / n)
    covariance_error = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    z_covariance = (np.cov(columns.T) - covariance) / covariance_error
    for z in (z_mean, z_covariance):
        assert np.abs(z).max() < 5  # some thousand z-values, if they are standard normal


def test_gaussian_samples_follow_their_equations():
    network = GaussianNetwork(
        {
            "c": LinearEquation(("a", "b"), (2.0, -1.0), 3.0, 0.5),
            "a": LinearEquation(intercept=-1.0, sd=2.0),
            "b": LinearEquation(("a",), (0.3,)),
        }
    )
    assert network.dag.nodes == ("c", "a", "b")
    mean, covariance = moments(network)
    assert mean[0] == pytest.approx(2 * -1 - 0.3 * -1 + 3)
    assert covariance[0, 0] == pytest.approx(1.7**2 * 4 + 1 + 0.25)
    check_gaussian_moments(network, n=50_000, seed=0)
    assert repr(network) == "GaussianNetwork(3 nodes, 3 →)"


def test_a_node_without_noise_is_a_function_of_its_parents():
    network = GaussianNetwork({"a": LinearEquation(), "b": LinearEquation(("a",), (2.0,), 1.0, 0.0)})
    columns = network.sample(20, seed=0)
    np.testing.assert_allclose(columns["b"], 1 + 2 * columns["a"])


def test_random_gaussian_parameters():
    dag = random_dag(30, degree=4, seed=0)
    network = GaussianNetwork.random(dag, seed=0, strength=(0.2, 0.4))
    coef = np.concatenate([equation.coef for equation in network.equations.values()])
    assert len(coef) == dag.n_edges
    assert ((np.abs(coef) >= 0.2) & (np.abs(coef) <= 0.4)).all()
    assert 0.2 < np.mean(coef > 0) < 0.8
    assert network.equations == GaussianNetwork.random(dag, seed=0, strength=(0.2, 0.4)).equations
    assert network.equations != GaussianNetwork.random(dag, seed=1, strength=(0.2, 0.4)).equations
    check_gaussian_moments(network, n=20_000, seed=0)


def partial_correlation(covariance, x, y, given):
    precision = np.linalg.inv(covariance[np.ix_([x, y, *given], [x, y, *given])])
    return precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])


@pytest.mark.parametrize("seed", range(5))
def test_separation_is_vanishing_partial_correlation(seed):
    """The Markov condition, and faithfulness, which almost all random parameters have."""
    dag = random_dag(7, degree=2.5, seed=seed)
    _, covariance = moments(GaussianNetwork.random(dag, seed=seed))
    for x, y in combinations(range(7), 2):
        rest = [node for node in range(7) if node not in (x, y)]
        for given in chain.from_iterable(combinations(rest, size) for size in range(6)):
            names = [dag.nodes[i] for i in given]
            vanishes = abs(partial_correlation(covariance, x, y, given)) < 1e-10
            assert dag.separated(dag.nodes[x], dag.nodes[y], names) == vanishes


# -- errors --------------------------------------------------------------------------------------------


def changed(old, new):
    assert BIF.count(old) == 1, f"{old!r} must be in the file once to be changed"
    return BIF.replace(old, new)


BAD_BIF = [
    ("", r"small\.bif: expected variable blocks, got none"),
    ("variable a", r"line 1, in the variable block of 'a': the file ends in the middle"),
    (BIF[:-4], r"line 18, in the probability block of 'sprinkler': the file ends in the middle"),
    (
        changed("network", "netwrk"),
        r"line 1, in the file: expected 'network', 'variable' or 'probability', got 'netwrk'",
    ),
    (
        changed("variable wet {", "variable {"),
        r"line 16, in the file: expected the name of a variable, got '{'",
    ),
    (
        changed("variable wet {", "variable wet ("),
        r"line 16, in the variable block of 'wet': expected '{', got '\('",
    ),
    (
        changed("variable wet", "variable rain"),
        r"line 16, in the variable block of 'rain': it is declared a second",
    ),
    (
        changed("[ 3 ]", "[ 4 ]"),
        r"line 10, in the variable block of 'rain': expected 4 different levels, got 3",
    ),
    (changed("<5mm,", "no,"), "line 10, .*expected 3 different levels, got 3: 'no', 'no', 'a lot'"),
    (
        changed("type discrete[2] { on off };", ""),
        r"line 13, .*'sprinkler': expected 'type discrete.*got '}'",
    ),
    (changed("discrete[2] {", "continuous[2] {"), "line 13, .*expected 'discrete'.*got 'continuous'"),
    (
        changed("{ on off };", "{ on off }"),
        r"line 13, in the variable block of 'sprinkler': expected ';', got '}'",
    ),
    (changed("property position", "position"), "line 11, .*'rain': expected a statement.*got 'position'"),
    (changed('"a lot"', '"a lot'), "line 10, .*expected a level, got '\"' .*without its partner"),
    (changed("property x ;", "row 1;"), "line 18, .*'sprinkler': expected a statement.*got 'row'"),
    (changed("( rain )", "( )"), r"line 17, in the file: expected '\( variable \| parent"),
    (
        changed("( rain )", "( snow )"),
        "line 17, in the probability block of 'snow': the variable 'snow' is not declared",
    ),
    (changed("rain, sprinkler )", "rain, hose )"), "line 4, .*'wet': the variable 'hose' is not declared"),
    (changed("rain, sprinkler )", "rain, rain )"), r"line 4, .*comes twice in \('wet', 'rain', 'rain'\)"),
    (
        changed("( sprinkler rain )", "( rain )"),
        "line 18, in the probability block of 'rain': it is the second one",
    ),
    (changed("probability ( rain ) { table 0.7, 0.2, 0.1; }", ""), "every variable, but 'rain' has none"),
    (
        changed("0.7, 0.2", "0.7, x"),
        "line 17, in the probability block of 'rain': expected a number, got 'x'",
    ),
    (changed("0.7, 0.2, 0.1", "0.7, 0.3"), "line 17, .*'rain': expected 3 numbers in this entry, got 2"),
    (changed("0.9, 0.1", "0.9"), "line 6, .*'wet': expected 2 numbers in this entry, got 1"),
    (changed("0.6 0.99 1e0", "0.6 0.99"), "line 18, .*expected 2 × 3 numbers in this entry, got 5"),
    (changed("0.9, 0.1", "0.9, 0.2"), r"line 6, .*'wet': .*sum to 1 \(within 0.001\), got the sum 1.1"),
    (changed("0.4 0.01 0 0.6", "0.4 0.01 0 0.5"), "line 18, .*'sprinkler': .*got the sum 0.9"),
    (
        changed("0.95, 0.05", "1.05, -0.05"),
        "line 7, .*'wet': expected probabilities between 0 and 1, got 1.05",
    ),
    (changed("0.95, 0.05", "-0.05, 1.05"), "line 7, .*between 0 and 1, got -0.05"),
    (changed("0.7, 0.2, 0.1", "nan, 0.2, 0.1"), "line 17, .*between 0 and 1, got nan"),
    (changed("(no, on)", "(no, off)"), r"line 6, .*'wet': the row \(no, off\) is given twice"),
    (
        changed("(no, on)", "(no, maybe)"),
        "line 6, .*expected a level of 'sprinkler' .'on', 'off'., got 'maybe'",
    ),
    (changed("(no, on)", "(no)"), r"line 6, .*each of the parents \(rain, sprinkler\), got \(no\)"),
    (
        changed("  default 0.95, 0.05;\n", ""),
        r"line 4, .*'wet': there are no probabilities for .*\(<5mm, on\)",
    ),
    (changed("{ table 0.7, 0.2, 0.1; }", "{ }"), r"line 17, .*'rain': there are no probabilities\. Add"),
    (
        changed("0.7, 0.2, 0.1;", "0.7, 0.2, 0.1; table 1, 0, 0;"),
        "line 17, .*table comes after other probabilities",
    ),
    (
        "".join(
            f"variable {a} {{ type discrete [1] {{ s }}; }} probability ({a} | {b}) {{ default 1; }}"
            for a, b in ("ab", "bc", "ca")
        ),
        r"small\.bif: The graph has the directed cycle 'a' → 'c' → 'b' → 'a'",
    ),
    (gzip.compress(BIF.encode())[:-30], r"small\.bif: expected a text .* cannot be read"),
    (BIF.encode().replace(b"nobody", b"\xff\xfe"), r"small\.bif: expected a text .* cannot be read.*UTF-8"),
]


@pytest.mark.parametrize("text, message", BAD_BIF)
def test_bad_bif_files_are_refused_with_line_and_block(written, text, message):
    path = written(text)
    for read in (DAG.from_bif, DiscreteNetwork.from_bif):
        with pytest.raises(GraphError, match=message):
            read(path)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        DAG.from_bif(tmp_path / "none.bif")


def test_probabilities_off_by_rounding_are_rescaled(written):
    network = DiscreteNetwork.from_bif(written(changed("0.7, 0.2, 0.1", "0.7, 0.2, 0.0995")))
    np.testing.assert_allclose(network.tables["rain"].probabilities, np.array([0.7, 0.2, 0.0995]) / 0.9995)


GOOD = {"parents": ["a"], "coef": [1.0], "intercept": 0, "sd": 1}
ROOT = {"parents": [], "coef": [], "intercept": 0, "sd": 1}
BAD_JSON = [
    ("{", "expected a JSON file, but it cannot be read"),
    ("[]", "expected an object {node: {parents, coef, intercept, sd}} at the top"),
    ({"a": 3}, "node 'a': expected an object with 'parents', 'coef', 'intercept', 'sd', got 3"),
    ({"a": {"parents": []}}, "node 'a': expected an object with .* got 'parents'"),
    ({"a": ROOT | {"sigma": 1}}, "got 'parents', 'coef', 'intercept', 'sd', 'sigma'"),
    ({"a": ROOT, "b": GOOD | {"parents": "a"}}, "node 'b': expected lists for parents and coef, got 'a'"),
    ({"a": ROOT, "b": GOOD | {"coef": 1.0}}, "node 'b': expected lists for parents and coef"),
    ({"a": ROOT, "b": GOOD | {"coef": ["1"]}}, "node 'b': expected numbers for coef, intercept and sd"),
    ({"a": ROOT | {"sd": True}}, "node 'a': expected numbers"),
    (
        {"a": ROOT, "b": GOOD | {"coef": [1, 2]}},
        r"net\.json: .*each of the 1 parents of node 'b' \('a'\), got 2",
    ),
    ({"a": ROOT | {"sd": -1}}, "sd ≥ 0 for node 'a', got .*-1"),
    ('{"a": {"parents": [], "coef": [], "intercept": NaN, "sd": 1}}', "finite coefficients .* for node 'a'"),
    ({"a": ROOT, "b": GOOD | {"parents": ["c"]}}, r"net\.json: Unknown node 'c' in edge \('c', 'b'\)"),
    ({"a": GOOD | {"parents": ["b"]}, "b": GOOD}, "more than one edge between"),
]


@pytest.mark.parametrize("content, message", BAD_JSON)
def test_bad_json_files_are_refused_with_their_reason(written, content, message):
    path = written(content if isinstance(content, str) else json.dumps(content), "net.json")
    with pytest.raises(GraphError, match=message):
        GaussianNetwork.from_json(path)


def table(probabilities, parents=(), levels=("u", "v")):
    return ConditionalTable(levels, parents, np.array(probabilities))


PAIR = DAG([("a", "b")])
BAD_NETWORKS = [
    (lambda: DiscreteNetwork({"a": table([0.5, 0.6])}), "table of node 'a': .*sum to 1 .* got the sum 1.1"),
    (lambda: DiscreteNetwork({"a": table([1.5, -0.5])}), "table of node 'a': .*between 0 and 1, got 1.5"),
    (lambda: DiscreteNetwork({"a": table([0.5, 0.3, 0.2])}), r"shape \(2,\) for node 'a'.*got shape \(3,\)"),
    (
        lambda: DiscreteNetwork({"a": table([0.5, 0.5]), "b": table([0.5, 0.5], ("a",))}),
        r"shape \(2, 2\) for node 'b' \(an axis for each of its parents 'a'.*got shape \(2,\)",
    ),
    (
        lambda: DiscreteNetwork({"a": table([0.5, 0.5], levels=("u", "u"))}),
        "different levels .* 'a', got 'u', 'u'",
    ),
    (
        lambda: DiscreteNetwork({"a": table([0.5, 0.5], levels=(0, 1))}),
        "levels of text for node 'a', got 0, 1",
    ),
    (lambda: DiscreteNetwork({"a": table([], levels=())}), "one or more different levels .* got nothing"),
    (lambda: DiscreteNetwork({"a": table([[0.5, 0.5]], ("b",))}), r"Unknown node 'b' in edge \('b', 'a'\)"),
    (lambda: DiscreteNetwork.random(PAIR, levels=0), "whole number ≥ 1 for node 'a', got 0"),
    (lambda: DiscreteNetwork.random(PAIR, levels={"a": 2}), "whole number ≥ 1 for node 'b', got None"),
    (lambda: DiscreteNetwork.random(PAIR, levels=2.0), "whole number ≥ 1 for node 'a', got 2.0"),
    (
        lambda: GaussianNetwork({"a": LinearEquation(coef=(1.0,))}),
        r"0 parents of node 'a' \(nothing\), got 1",
    ),
    (
        lambda: GaussianNetwork({"a": LinearEquation(sd=np.inf)}),
        "finite coefficients and sd ≥ 0 for node 'a'",
    ),
    (lambda: DiscreteNetwork.random(PAIR, concentration=0), "concentration > 0, got 0"),
    (lambda: GaussianNetwork.random(PAIR, strength=(1, 0.5)), r"0 ≤ low ≤ high, got \(1, 0.5\)"),
    (lambda: GaussianNetwork.random(PAIR, 0).sample(-1), "whole number n ≥ 0 of rows to draw, got -1"),
    (lambda: DiscreteNetwork.random(PAIR, 0).sample(2.5), "whole number n ≥ 0 of rows to draw, got 2.5"),
]


@pytest.mark.parametrize("build, message", BAD_NETWORKS)
def test_bad_networks_are_refused_with_their_reason(build, message):
    with pytest.raises(GraphError, match=message):
        build()
