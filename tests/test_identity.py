"""Which settings make a run the run it is."""

from contrastive.run.identity import NON_IDENTITY_KEYS, differences, identity


def test_differences_leave_out_settings_that_change_no_result():
    old = {"device": "cpu", "evaluator": {"knn": {"every": 1, "k": 5}}}
    assert differences(old, {"device": "cuda", "evaluator": {"knn": {"every": 5, "k": 5}}}) == []
    assert differences(old, {"evaluator": {"knn": {"every": 1, "k": 6}}}) == ["evaluator.knn.k: 5 -> 6"]
    assert differences({"a": {"b": 1}}, {"a": {}, "c": 2}) == [
        "a: (absent) -> {}",
        "a.b: 1 -> (absent)",
        "c: (absent) -> 2",
    ]


def test_every_key_without_identity_is_a_setting(composed):
    config = composed("dataset=image_folder").to_dict()
    for key in NON_IDENTITY_KEYS:
        group, _, rest = key.partition(".")
        assert group in config
        assert not rest or rest in config[group], key
    assert not set(NON_IDENTITY_KEYS) & identity(config).keys()
