"""``python -m tracecast MODULE:FACTORY --gpu ...``: a network of PyTorch that a function makes, predicted as ``tracecast predict`` does."""

import importlib
import os
import sys
import tempfile

from tracecast import InputError, graph, run

USAGE = """usage: python -m tracecast MODULE:FACTORY [FLAGS of tracecast predict]

MODULE is what `import` takes, the working folder first. FACTORY() gives an nn.Module and the inputs of its forward pass:
    def factory(): return torchvision.models.resnet50(), torch.empty(32, 3, 224, 224)
The network is traced without running it, on any machine with PyTorch."""


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    place, colon, name = words[0].partition(":")
    if not colon:
        raise InputError(f"'{words[0]}'; expected MODULE:FACTORY, such as mine:factory")
    sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{words[0]}: {error}; expected a module on the path and a function in it") from error
    if not callable(factory):
        raise InputError(f"{words[0]}: a {type(factory).__name__}; expected a function that gives (module, inputs)")
    made = factory()
    if not isinstance(made, tuple) or len(made) != 2:
        raise InputError(f"{words[0]}: {type(made).__name__}; expected (module, inputs)")
    phase = next((after for word, after in zip(words, words[1:]) if word == "--phase"), None) or next(
        (word.partition("=")[2] for word in words if word.startswith("--phase=")), "train")
    traced = graph(*made, phase=phase)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, traced.name + ".graph")
        traced.save(file)
        code, report, talk = run("predict", file, *words[1:])
    sys.stdout.write(report)
    sys.stderr.write(talk)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
