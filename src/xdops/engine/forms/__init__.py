"""The forms: one file each, and one entry here."""

from xdops.engine.forms import definition, fused, grouped, grouped_taps, joined, past, source, spectral, taps, tiled
from xdops.engine.forms.form import Form

#: By name; of equally cheap ones the first is chosen.
FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        source.FORM,
        spectral.FORM,
        joined.FORM,
        fused.FORM,
        tiled.FORM,
        *grouped.BOTH,
        taps.FORM,
        grouped_taps.FORM,
        past.FORM,
        definition.FORM,
    )
}
