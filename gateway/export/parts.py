"""What every protocol serves exports with; built once in a process."""

from dataclasses import dataclass

from chassis.http.access import ProjectKeyCheck
from gateway.admission.refusal_cache import RefusalCache
from gateway.export.steps import ExportSteps
from gateway.outcomes import OutcomeCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportParts:
    """The steps, what counts their outcomes, what refuses early, and the guard of project keys."""

    steps: ExportSteps
    outcomes: OutcomeCounters
    refusal_cache: RefusalCache
    project_keys: ProjectKeyCheck
