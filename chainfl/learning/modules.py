"""Model vectors as torch modules, to go on with a trained model."""

from torch import nn

from chainfl.learning import app as apps
from chainfl.learning import models
from chainfl.learning.app import App
from chainfl.learning.builtin import BuiltIn
from chainfl.learning.learner import Flat, Learner


def module_of(learner: Learner, flat_D: Flat) -> nn.Module:
    """A new module of this app with these parameters, in eval mode.

    Raises:
        LengthError: they do not fit.
    """
    if isinstance(learner, App):
        network = learner.build()
        apps.load(learner.tensors(network), flat_D)
    else:
        assert isinstance(learner, BuiltIn)
        network = models.build(learner.spec.model)
        models.load_flat(network, flat_D)
    return network.eval()
