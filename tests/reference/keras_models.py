"""Small models of Keras, in f64, and what they compute: of mgpuc.from_keras and of Keras. `python3 keras_models.py [NAME...]` prints a line for each."""
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # noqa: E402
import keras.src.backend.common.dtypes  # noqa: E402
import keras.src.backend.torch.numpy  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from keras import Input, Sequential, layers as L, ops  # noqa: E402


def exactly():
    """f64 throughout: products of matrices, norms and means too, which Keras computes in f32 on PyTorch."""
    keras.src.backend.common.dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"
    keras.backend.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    keras.src.backend.torch.numpy.matmul = lambda a, b: torch.matmul(ops.convert_to_tensor(a), ops.convert_to_tensor(b))


class Block(L.Layer):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.a, self.b, self.norm = L.Dense(2 * width, activation="gelu"), L.Dense(width), L.UnitNormalization()

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), name="scale", initializer="ones")
        super().build(shape)

    def call(self, x):
        return x * self.scale + self.b(self.a(self.norm(x)))


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = [Block(8) for _ in range(3)], L.Dense(3)

    def call(self, x):
        for b in self.blocks:
            x = b(x)
        return self.head(ops.mean(x, axis=1))


def chain(*layers, shape=(9, 10, 4), kind=None):
    return lambda: Sequential([Input(shape, dtype=kind)] + [make() for make in layers])


def graph(make, *shapes):
    def build():
        inputs = [Input(s) for s in shapes]
        return keras.Model(inputs if len(inputs) > 1 else inputs[0], make(*inputs))
    return build


def transformer(x):
    for _ in range(2):
        h = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(3, 4)(h, h)])
        h = L.LayerNormalization()(x)
        x = L.Add()([x, L.Dense(12)(L.Dense(24, activation="gelu")(h))])
    return L.Dense(5, activation="softmax")(L.GlobalAveragePooling1D()(x))


def shared(a, b):
    dense = L.Dense(6, activation="tanh")
    return L.Concatenate()([dense(a), dense(b), dense(dense(a))])


def nested(x):
    inner = Sequential([Input((8, 8, 2)), L.Conv2D(4, 3, padding="same"), L.ReLU()], name="inner")
    return L.Conv2D(1, 1, activation="sigmoid")(L.UpSampling2D()(L.MaxPool2D()(inner(x))))


def some(x):
    y = L.Lambda(lambda z: ops.sqrt(ops.abs(z)) * 2 + z[:, ::2, 1:9][:, :1, :1], output_shape=(9, 10, 4))(x)
    return ops.stack([ops.flip(y, axis=1), ops.where(y > 2, y, ops.cumsum(x, axis=2))], axis=-1)[..., 0, None]


def conditions(x):
    """Numbers as truth values: a number is true where it is not 0, however large it is."""
    either = ops.logical_xor(ops.relu(x), ops.relu(x - 0.5))
    both = ops.logical_or(ops.logical_and(x > 0, ops.relu(x - 0.5)), ops.logical_not(ops.relu(x + 0.5)))
    return ops.concatenate([ops.cast(either, x.dtype), ops.cast(both, x.dtype), ops.tile(x, (2,)), ops.tile(x, (1, 1, 3))], axis=-1)


ACTIVATIONS = "relu sigmoid tanh gelu elu selu softplus softsign swish hard_sigmoid hard_swish relu6 mish log_sigmoid exponential leaky_relu log_softmax".split()
MODELS = {
    "convolutions": chain(lambda: L.Conv2D(3, 3, strides=2, padding="same"), lambda: L.BatchNormalization(), lambda: L.Conv2D(2, 4, padding="same", dilation_rate=2)),
    "groups": chain(lambda: L.Conv2D(8, (3, 2), groups=2, strides=(1, 2), activation="swish")),
    "depthwise": chain(lambda: L.DepthwiseConv2D(3, depth_multiplier=2, strides=2, padding="same"), lambda: L.SeparableConv2D(5, 3, depth_multiplier=2, padding="same", activation="elu")),
    "transposed": chain(lambda: L.Conv2DTranspose(3, 3, strides=2), lambda: L.Conv2DTranspose(2, 2, strides=3)),
    "transposed, same": chain(lambda: L.Conv2DTranspose(3, 3, strides=2, padding="same"), lambda: L.Conv2DTranspose(2, 4, strides=2, padding="same")),
    "transposed, odd": chain(lambda: L.Conv2DTranspose(3, 5, padding="same"), lambda: L.Conv2DTranspose(3, 2, strides=3, padding="same")),
    "pools": chain(lambda: L.MaxPool2D(3, strides=2, padding="same"), lambda: L.AveragePooling2D(3, strides=2, padding="same")),
    "pools of two": chain(lambda: L.AveragePooling2D(2, padding="same"), lambda: L.MaxPool2D(2, strides=1, padding="same")),
    "one axis": chain(lambda: L.Conv1D(4, 3, padding="causal", dilation_rate=2), lambda: L.Conv1D(4, 4, strides=2, padding="same"), lambda: L.MaxPool1D(2),
                      lambda: L.GlobalMaxPool1D(), shape=(21, 3)),
    "three axes": chain(lambda: L.Conv3D(4, 3, padding="same", strides=2), lambda: L.AveragePooling3D(2), lambda: L.Flatten(), shape=(8, 8, 8, 2)),
    "norms": chain(lambda: L.GroupNormalization(2), lambda: L.LayerNormalization(axis=[-2, -1]), lambda: L.BatchNormalization(scale=False), lambda: L.RMSNormalization()),
    "another axis": chain(lambda: L.BatchNormalization(axis=1), lambda: L.UnitNormalization()),
    "activations": chain(*[lambda a=a: L.Activation(a) for a in ACTIVATIONS]),
    "activation layers": chain(lambda: L.LeakyReLU(0.2), lambda: L.ReLU(max_value=3, negative_slope=0.1, threshold=0.2), lambda: L.PReLU(), lambda: L.ELU(0.5), lambda: L.Softmax(axis=1)),
    "shapes": chain(lambda: L.ZeroPadding2D(((1, 2), (0, 3))), lambda: L.Cropping2D(((1, 0), (2, 1))), lambda: L.Permute((2, 1, 3)), lambda: L.Reshape((-1, 4)), lambda: L.Rescaling(0.5, 1.0)),
    "sizes": chain(lambda: L.UpSampling2D(2), lambda: L.UpSampling2D((2, 3), interpolation="bilinear"), lambda: L.Resizing(12, 15)),
    "channels first": chain(lambda: L.Conv2D(3, 3, data_format="channels_first", padding="same"), lambda: L.MaxPool2D(2, data_format="channels_first"),
                            lambda: L.Flatten(data_format="channels_first"), lambda: L.Dense(4), shape=(4, 9, 10)),
    "words": chain(lambda: L.Embedding(11, 6), lambda: L.Dense(4, activation="relu"), lambda: L.Flatten(), lambda: L.Dense(2, activation="softmax"), shape=(7,), kind="int32"),
    "a class": Net,
    "a transformer": graph(transformer, (16, 12)),
    "a shared layer": graph(shared, (6,), (6,)),
    "a model in a model": graph(nested, (8, 8, 2)),
    "attention": graph(lambda a, b: L.MultiHeadAttention(2, 5, value_dim=3, dropout=0.1)(a, b), (6, 8), (9, 8)),
    "causal attention": graph(lambda a: L.MultiHeadAttention(2, 4)(a, a, use_causal_mask=True), (6, 8)),
    "grouped attention": graph(lambda a: L.GroupQueryAttention(4, 4, 2)(a, a), (6, 8)),
    "products": graph(lambda a, b: L.Dot(axes=2)([a, b]), (6, 8), (9, 8)),
    "merges": graph(lambda a, b: L.Average()([L.Maximum()([a, b]), L.Minimum()([a, b]), L.Multiply()([a, b]), L.Subtract()([a, b])]), (6,), (6,)),
    "columns": chain(lambda: L.Normalization(mean=[1., 2, 3, 4, 5], variance=[1., 4, 9, 16, 25]), lambda: L.Dense(3), lambda: L.RepeatVector(4), lambda: L.TimeDistributed(L.Dense(2)), shape=(5,)),
    "einsum": chain(lambda: L.EinsumDense("abcd,de->abce", output_shape=(None, None, 5), bias_axes="e")),
    "lstm, gru": chain(lambda: L.LSTM(6, return_sequences=True), lambda: L.GRU(5, reset_after=False, return_sequences=True), lambda: L.GRU(5), shape=(7, 4)),
    "one lstm": chain(lambda: L.Conv1D(6, 3), lambda: L.LayerNormalization(), lambda: L.LSTM(5), lambda: L.Dense(3), shape=(9, 4)),
    "stochastic depth": chain(lambda: L.Conv2D(4, 3), lambda: L.Dropout(0.5, noise_shape=(None, 1, 1, 1))),
    "separable": chain(lambda: L.SeparableConv2D(6, 3), lambda: L.BatchNormalization(), lambda: L.GlobalAveragePooling2D(), lambda: L.Dense(3)),
    "both directions": chain(lambda: L.Bidirectional(L.LSTM(6, return_sequences=True)), lambda: L.SimpleRNN(3, use_bias=False), shape=(7, 4)),
    "several outputs": graph(lambda a: {"u": L.Dense(2, name="u")(a), "v": L.Dense(3, name="v")(a)}, (4,)),
    "operations": graph(some, (9, 10, 4)),
    "conditions and tiles": graph(conditions, (5, 4)),
}


STORED = {"convolutions", "transposed", "three axes", "words", "a model in a model", "one lstm", "separable"}  # whose files the networks begin with, by the rules `keras`


def drawn(model, random):
    """Weights that hide nothing, and inputs of 32 bits, as a network reads them."""
    for v in model.variables:
        if v.dtype.startswith("float"):
            last = v.path.split("/")[-1]
            v.assign(random.uniform(0.5, 1.5, v.shape) if last in ("moving_variance", "gamma") else random.normal(size=v.shape) * 0.3)


def drawn_as_trained(model, random):
    """For deep models: weights as they begin, statistics and biases that are not those of a fresh model."""
    for v in model.variables:
        last = v.path.split("/")[-1]
        if last in ("moving_variance", "gamma"):
            v.assign(random.uniform(0.5, 1.5, v.shape))
        elif last in ("moving_mean", "beta", "bias"):
            v.assign(random.normal(size=v.shape) * 0.1)


def inputs(model, random):
    shapes = [(tuple(i.shape[1:]), i.dtype) for i in model.inputs] if getattr(model, "inputs", None) else [((5, 8), "float64")]
    found = [random.integers(0, 11, (3,) + s).astype("int32") if kind == "int32" else random.normal(size=(3,) + s).astype("float32").astype("float64") for s, kind in shapes]
    return found if len(found) > 1 else found[0]


def computed(model, x):
    """What Keras computes, as a list."""
    tensors = keras.tree.map_structure(lambda a: ops.convert_to_tensor(a, dtype=str(a.dtype)), x)
    with torch.no_grad():
        return [ops.convert_to_numpy(y) for y in keras.tree.flatten(model(tensors, training=False))]


def off(ours, theirs):
    ours = ours if isinstance(ours, list) else [ours]
    return max(abs(a - b).max() / abs(b).max() if a.shape == b.shape else float("inf") for a, b in zip(ours, theirs))


def check(name, mgpuc):
    keras.utils.set_random_seed(1)
    model, random = MODELS[name](), np.random.default_rng(3)
    if isinstance(model, Net):
        model(np.zeros((1, 5, 8)))
    drawn(model, random)
    x = inputs(model, random)
    made = mgpuc.from_keras(model, "keras.net", inputs=x if isinstance(model, Net) else None)
    program = mgpuc.compile(made, "keras", precision="f64", batch=3)
    far = off(program.predict(*(x if isinstance(x, list) else [x])), computed(model, x))
    if name in STORED:
        drawn(model, np.random.default_rng(7))
        model.save("stored.keras")
        far = max(far, off(program.predict(x, weights="stored.keras"), computed(model, x)))
    return made, far


if __name__ == "__main__":
    import mgpuc

    exactly()
    torch.set_num_threads(1)
    for which in sys.argv[1:] or MODELS:
        made, far = check(which, mgpuc)
        print(f"ok from_keras: {which}" if far < 1e-10 else f"not ok from_keras: {which}: off by {far}")
