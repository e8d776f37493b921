#!/usr/bin/env python3
"""torch_lstm.py YARDSTICK char_lstm OPTIONS...: the yardstick's step (torch_train.py) of the network of examples/char_lstm.net."""
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("torch_train", sys.argv.pop(1))
yardstick = importlib.util.module_from_spec(spec)
spec.loader.exec_module(yardstick)  # imports PyTorch, and counts from there
nn = yardstick.nn


class CharLstm(nn.Module):
    def __init__(self, vocabulary, embedded, width, depth):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedded)
        self.lstm = nn.LSTM(embedded, width, depth, batch_first=True, dropout=0.2)  # between the layers
        self.dropout, self.dense = nn.Dropout(0.2), nn.Linear(width, vocabulary)

    def forward(self, token):
        return self.dense(self.dropout(self.lstm(self.embedding(token))[0])).flatten(0, 1)


yardstick.MODELS["char_lstm"] = (lambda: CharLstm(65, 64, 256, 2), 64, 128, 65, "adamw")
yardstick.main()
