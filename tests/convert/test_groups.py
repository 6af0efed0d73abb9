"""Parameter groups: every parameter once, each kind with its own settings, for any optimizer."""

import pytest
import torch
from torch import nn

import xdops
from xdops import XDConfig, XDError, convert_, parameter_groups
from xdops.spaces import darts_


def converted(convert) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(9, 2))
    x = torch.randn(4, 2, 8)
    convert(model, x, XDConfig(trained=("K", "L")))
    return model, x


@pytest.mark.parametrize("convert", [convert_, darts_])
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_every_parameter_that_learns_is_in_one_group_with_its_own_settings(convert, make):
    model, x = converted(convert)
    groups = parameter_groups(model, lr=1e-2, arch_lr=1e-3, weight_decay=1e-4, arch_weight_decay=1e-5)
    assert [(g["name"], g["lr"], g["weight_decay"]) for g in groups] == [("weights", 1e-2, 1e-4), ("architecture", 1e-3, 1e-5)]
    assert groups[0]["params"] == xdops.weight_parameters(model)
    assert groups[1]["params"] == xdops.arch_parameters(model)
    listed = [id(p) for g in groups for p in g["params"]]
    assert len(listed) == len(set(listed))
    assert set(listed) >= {id(p) for p in model.parameters() if p.requires_grad}
    optimizer = make(groups)
    before = [p.clone() for g in groups for p in g["params"]]
    model(x).square().sum().backward()
    optimizer.step()
    moved = [not torch.equal(p, q) for p, q in zip((p for g in groups for p in g["params"]), before, strict=True)]
    assert sum(moved) > len(moved) / 2
    assert any(moved[len(groups[0]["params"]) :])


def test_a_backbone_has_one_group_and_nothing_to_learn_is_an_error():
    model = nn.Sequential(nn.Conv1d(1, 1, 3))
    (group,) = parameter_groups(model, 0.1, 0.1)
    assert group["name"] == "weights"
    assert group["weight_decay"] == 0
    with pytest.raises(XDError, match="without parameters"):
        parameter_groups(nn.Sequential(nn.ReLU()), 0.1, 0.1)


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "fast", None])
@pytest.mark.parametrize("which", ["lr", "arch_lr", "weight_decay", "arch_weight_decay"])
def test_a_rate_that_no_optimizer_can_use_is_refused(which, bad):
    with pytest.raises(XDError, match=f"^given {which}={bad!r}"):
        parameter_groups(nn.Sequential(nn.Conv1d(1, 1, 3)), **{"lr": 0.1, "arch_lr": torch.tensor(0.0), which: bad})


def test_reports_show_themselves_in_notebooks_with_names_escaped():
    model = nn.ModuleDict({"<b>&": nn.Conv1d(1, 1, 3)})
    model.forward = lambda x: model["<b>&"](x)
    for report in (convert_(model, torch.randn(1, 1, 8)), xdops.revert_(model)):
        html = report._repr_html_()
        assert "&lt;b&gt;&amp;" in html
        assert "<b>" not in html
        assert html.count("<tr>") == html.count("</tr>") == 2
    assert isinstance(report, xdops.RevertReport)
    assert xdops.RevertReport(())._repr_html_().count("<tr>") == 1
