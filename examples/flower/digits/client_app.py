"""The client: one train and one evaluate function, as Flower calls them."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import Net, load_data
from digits.task import test as test_fn
from digits.task import train as train_fn

app = ClientApp()
DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def net_and_data(msg: Message, context: Context):
    """The model that the message brings, and this node's partition."""
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    place = context.node_config
    batch = context.run_config["batch-size"]
    return net, load_data(place["partition-id"], place["num-partitions"], batch)


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model of the message on this node's partition."""
    net, (loader, _) = net_and_data(msg, context)
    rate = msg.content["config"]["lr"]
    loss = train_fn(net, loader, context.run_config["local-epochs"], rate, DEVICE)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    reply = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=reply, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Judge the model of the message on what this node holds out."""
    net, (_, held_out) = net_and_data(msg, context)
    loss, accuracy = test_fn(net, held_out, DEVICE)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(held_out.dataset)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
