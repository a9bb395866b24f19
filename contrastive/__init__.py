"""(De)biased contrastive representation learning: images → views → encoder → head → pairs → a scalar.

    pretrain      train, evaluate and write one run: pretrain(loss="debiased_pos", epochs=1)
    Result        a finished run: its figures, curves and encoder
    compare       is my loss really better? compare(loss=["nt_xent", "my_loss"], dataset="digits")
    runs          the finished runs below a folder as a pandas table
    load_encoder  a trained encoder and the transform of its images; load_encoder("digits") comes with the package
    load_head     the projection head of a run
    make          one component by the name of its YAML: make("loss/debiased_pos"), make("dataset/digits")
    check_loss    whether a loss of your own has the properties of one; check_encoder and check_dataset alike

Every loss, regularizer, encoder and augmentation is a class of its own, such as contrastive.NTXent(temperature=0.5);
`dir(contrastive)` has all public names. A mistake in settings raises ConfigError.
"""

# The public names stand in __init__.pyi and are imported at their first use: `import contrastive` loads no torch.
try:
    import lazy_loader
except ModuleNotFoundError as error:
    from contrastive.errors import without_package

    raise without_package(error) from None

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
