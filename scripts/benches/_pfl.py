"""Apple's pfl as a contender: a process, or two, that plays a round of federated averaging for each line it is sent."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benches._peers import peer_python

REQUIREMENTS = ("pfl==0.6.0",)

PFL = """
import json, os, sys, time
import types
import multiprocessing
import numpy as np
import torch

# pfl is installed without what it depends on: accounting for privacy plays no part here.
def stand_in(name, *names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(dict.fromkeys(names))

stand_in("dill")
stand_in("dp_accounting", "dp_event")
stand_in("dp_accounting.pld", "privacy_loss_distribution")
stand_in("dp_accounting.rdp", "rdp_privacy_accountant")
stand_in("prv_accountant", "LaplaceMechanism", "PoissonSubsampledGaussianMechanism", "PRVAccountant")
sys.modules["multiprocess"] = multiprocessing

from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what pfl prints is no answer
torch.set_num_threads(1)
torch.manual_seed(0)
data, model, drawn, each, used, batch, rate = sys.argv[1:]
held, drawn, each, used = np.load(data), int(drawn), int(each), int(used)
x, y = held["x"].astype(np.float32)[:, None] / 255, held["y"]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        dense = [nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10)]
        convolved = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10)]
        self.net = nn.Sequential(*(dense if "mlp" in model else convolved))
    def forward(self, x):
        return self.net(x)
    def loss(self, x, y, eval=False):
        return nn.functional.cross_entropy(self(x), y)
    @torch.no_grad()
    def metrics(self, x, y, eval=False):
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}

class Turns(TrainingProcessCallback):
    def on_train_begin(self, *, model):
        self.wait()
        return Metrics()
    def wait(self):
        if os.environ.get("RANK", "0") == "0" and not sys.stdin.readline():
            os._exit(0)
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # else the other process would begin while others have their turn
        self.started = time.perf_counter()
    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps({"answer": {"seconds": time.perf_counter() - self.started}}), file=answers, flush=True)
        self.wait()
        return False, Metrics()

def client(k):
    at = slice(k * each, k * each + used)
    return Dataset(raw_data=[torch.from_numpy(x[at]), torch.from_numpy(y[at])], user_id=str(k))

rng, net = np.random.default_rng(1), Net()
users = FederatedDataset(client, lambda: int(rng.integers(len(y) // each)))
learned = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0))
FederatedAveraging().run(
    NNAlgorithmParams(central_num_iterations=10_000, evaluation_frequency=10**9, train_cohort_size=drawn,
        val_cohort_size=None),
    SimulatedBackend(training_data=users, val_data=None, postprocessors=[]), learned,
    NNTrainHyperParams(local_num_epochs=1, local_learning_rate=float(rate), local_batch_size=int(batch)),
    NNEvalHyperParams(local_batch_size=None), callbacks=[Turns()])
"""


def pfl_commands(folder: Path, arguments: Sequence[str]) -> Mapping[str, list[str]]:
    """By name: pfl in one and in two processes. Arguments: data, model, drawn, samples of each and of these used,
    batch, rate.
    """
    python = str(peer_python("pfl", REQUIREMENTS, alone=True))
    script = folder / "contender.py"
    script.write_text(PFL)
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return {
        "pfl, one process": [python, "-u", str(script), *arguments],
        "pfl, two processes": [*torchrun, str(script), *arguments],
    }
