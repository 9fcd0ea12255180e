"""The numbers of the paper's source, found without the package: {label: {axis values that a reader sees: printed}}."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = next(iter([*ROOT.glob("paper/ladp-fl.tex"), *ROOT.parent.glob("*/paper/ladp-fl.tex")]), None)
NAMES = {"ResNet-18": "resnet18", "CNN": "cnn", "CIFAR-10": "cifar10", "CIFAR-100": "cifar100"}
METHODS = {"no protection": "none", "full dp": "full", "time-varying dp": "time-varying", "sensitive dp": "sensitive", "dpa ldp": "dpa", "adapldp": "adapldp",
           "ladp-fl (ours)": "ladp", "": "ladp"}
COLUMNS = ("ladp", "full", "time-varying", "sensitive", "dpa", "adapldp")
NUMBER = re.compile(r"-?\d[\d,.]*A?(e-\d+)?%?|-")


def source():
    return re.sub(r"(?<!\\)%.*", "", SOURCE.read_text("utf-8"))


def lines(label):
    """The rows of a tabular, cell by cell, without commands."""
    whole = next(table for table in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source(), re.S) if f"\\label{{{label}}}" in table)
    body = whole.partition("\\begin{tabular}")[2].partition("\\end{tabular}")[0]
    body = re.sub(r"\\makecell\{([^{}]*)\}", lambda m: m[1].replace("\\\\", ""), re.sub(r"\\tool\b", "", body))
    return [[plain(cell) for cell in line.split("&")] for line in body.split("\\\\")]


def plain(text):
    text = text.replace("\\%", "%")
    for _ in range(3):
        text = re.sub(r"\\(?:textbf|makecell)\{([^{}]*)\}|\\(?:multirow|multicolumn|textcolor)\{[^{}]*\}(?:\{[^{}]*\})?\{([^{}]*)\}", lambda m: m[1] or m[2] or "", text)
    text = re.sub(r"\\[a-z]+(\{[^{}]*\})*|[${}]", " ", text)
    return " ".join(text.split())


def numbers(line, count):
    """The last `count` cells, if all of them are numbers or dashes."""
    cells = line[-count:]
    return cells if len(cells) == count and all(NUMBER.fullmatch(cell) for cell in cells) else None


def scenarios(line):
    return [tuple(NAMES[name] for name in pair) for cell in line for pair in re.findall(r"(ResNet-18|CNN)@(CIFAR-100?)", cell)]


def by_scenario(label, figure, rate):
    """Tables with a block for each scenario, two side by side in the supplement."""
    found, heads, epsilon = {}, [], None
    for line in lines(label):
        heads = scenarios(line) or heads
        cells = numbers(line, 6 * len(heads)) if heads else None
        if cells is None:
            continue
        words = line[: -len(cells)]
        epsilon = next((word for word in words if re.fullmatch(r"0\.\d", word)), epsilon)
        at = "mean" if "Average" in words[0] else float(epsilon)
        quantity = rate if "Rate" in " ".join(words) else figure
        for k, head in enumerate(heads):
            found |= {(*head, at, quantity, method): cell for method, cell in zip(COLUMNS, cells[6 * k :])}
    return found


def by_method(label, columns):
    """Tables with a line for each budget and method."""
    found, epsilon = {}, None
    for line in lines(label):
        if cells := numbers(line, len(columns)):
            epsilon = None if line[0] == "-" else float(line[0]) if line[0] else epsilon
            found |= {(epsilon, METHODS[line[1].lower()], *column): cell for column, cell in zip(columns, cells)}
    return found


def p_values():
    found, about = {}, None
    for line in lines("tab:pvalue"):
        if cells := numbers(line, 5):
            about = {"Accuracy": "accuracy", "Noise scale": "noise_scale", "Accumulative privacy budget": "accumulated", "": about}[line[0]]
            found |= {(about, *next(iter(scenarios(line)), ("mean", "mean")), method): cell for method, cell in zip(COLUMNS[1:], cells)}
    return found


def deep():
    found, epsilon = {}, None
    for line in lines("tab:res152"):
        if cells := numbers(line, 6):
            epsilon = float(line[0].rpartition("=")[2]) if line[0] else epsilon
            found |= {(epsilon, "accuracy" if "Acc" in line[1] else "seconds", method): cell for method, cell in zip(COLUMNS, cells)}
    return found


TABLES = {
    "accuracy": lambda: by_scenario("tab:new_appendix_acc_results", "accuracy", "improvement"),
    "noise": lambda: by_scenario("tab:new_appendix_noise_results", "noise_scale", "reduction"),
    "accuracy-main": lambda: by_scenario("tab:acc_ret", "accuracy", "improvement"),
    "noise-main": lambda: by_scenario("tab:noise_ret", "noise_scale", "reduction"),
    "time": lambda: by_scenario("Tab:resource_perform", "seconds", "increment"),
    "heterogeneity": lambda: by_method("tab:heterogeneous", [(d, q) for d in ("I", "II") for q in ("accuracy", "noise_scale")]),
    "fid": lambda: by_method("tab_attack_gen_quality", [(name,) for name in ("car", "horse", "bird", "A", "e", "5")]),
    "p-values": p_values,
    "resnet152": deep,
}
AXES = {
    "heterogeneity": ("epsilon", "method", "distribution", "quantity"),
    "fid": ("epsilon", "method", "class"),
    "p-values": ("about", "model", "data", "method"),
    "resnet152": ("epsilon", "quantity", "method"),
}
GENERAL = ("model", "data", "epsilon", "quantity", "method")


def sections():
    """Section by section, the prose without its tables: {title as a slug: text}."""
    prose = re.sub(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", "", source(), flags=re.S)
    parts = re.split(r"\\begin\{(abstract)\}|\\(?:sub)*section\{((?:[^{}]|\{[^{}]*\})*)\}", prose)
    found = {}
    for abstract, title, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        name = abstract or re.sub(r"\\mapping\{[^{}]*\}", "", title)
        found[re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")] = text
    return found
