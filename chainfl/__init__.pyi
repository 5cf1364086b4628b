from chainfl.errors import ChainflError as ChainflError
from chainfl.learning.app import App as App
from chainfl.learning.app import load_app as load_app
from chainfl.learning.score import Score as Score
from chainfl.public.simulation import SimulationResult as SimulationResult
from chainfl.public.simulation import resume as resume
from chainfl.public.simulation import simulate as simulate
from chainfl.public.task import RoundAudit as RoundAudit
from chainfl.public.task import Task as Task
from chainfl.public.task import TaskRound as TaskRound
from chainfl.sim.run import RoundMetrics as RoundMetrics

__version__: str
DISTRIBUTION: str
