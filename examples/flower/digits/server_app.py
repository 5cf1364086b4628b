"""The server, as `flwr run` starts it. In chainfl only its first message is wanted: the first model and the rate."""

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Rounds of federated averaging."""
    strategy = FedAvg(fraction_train=1.0)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": 0.003}),
        num_rounds=context.run_config["num-server-rounds"],
    )
