"""Evaluate agents: suites of cases, records of trials, graders and statistics.

The package only measures; agents, clients and recordings are those of the other packages. Programs import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duologue.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from duologue.evals.engines.address import open_engine as open_engine
    from duologue.evals.engines.interface import Engine as Engine
    from duologue.evals.engines.interface import EngineError as EngineError
    from duologue.evals.exceptions import EvalError as EvalError
    from duologue.evals.exceptions import GraderError as GraderError
    from duologue.evals.exceptions import RecordError as RecordError
    from duologue.evals.exceptions import SuiteError as SuiteError
    from duologue.evals.graders.grading import grade_record as grade_record
    from duologue.evals.graders.grading import grade_trial as grade_trial
    from duologue.evals.graders.interface import GraderInput as GraderInput
    from duologue.evals.record.key import TrialKey as TrialKey
    from duologue.evals.record.manifest import AgentIdentity as AgentIdentity
    from duologue.evals.record.manifest import RunManifest as RunManifest
    from duologue.evals.record.manifest import TrialManifest as TrialManifest
    from duologue.evals.record.outcomes import OUTCOMES as OUTCOMES
    from duologue.evals.record.outcomes import TrialOutcome as TrialOutcome
    from duologue.evals.record.outcomes import outcome_of_error as outcome_of_error
    from duologue.evals.record.outcomes import outcome_of_stop as outcome_of_stop
    from duologue.evals.record.result import Grade as Grade
    from duologue.evals.record.result import GraderOutput as GraderOutput
    from duologue.evals.record.result import Grades as Grades
    from duologue.evals.record.result import TrialMetrics as TrialMetrics
    from duologue.evals.record.result import TrialResult as TrialResult
    from duologue.evals.record.result import final_outcome as final_outcome
    from duologue.evals.record.run_directory import RunDirectory as RunDirectory
    from duologue.evals.record.trajectory import TrajectoryStep as TrajectoryStep
    from duologue.evals.record.trajectory_reader import read_trajectory as read_trajectory
    from duologue.evals.record.trial_record import TrialRecord as TrialRecord
    from duologue.evals.report.balance import BalanceAnalysis as BalanceAnalysis
    from duologue.evals.report.balance import Category as Category
    from duologue.evals.report.balance import analyze_balance as analyze_balance
    from duologue.evals.report.calibration import Calibration as Calibration
    from duologue.evals.report.calibration import TrialLabel as TrialLabel
    from duologue.evals.report.calibration import calibrate as calibrate
    from duologue.evals.report.calibration import read_labels as read_labels
    from duologue.evals.report.calibration import sample_to_label as sample_to_label
    from duologue.evals.report.eval_report import AgentRow as AgentRow
    from duologue.evals.report.eval_report import Amount as Amount
    from duologue.evals.report.eval_report import CaseRow as CaseRow
    from duologue.evals.report.eval_report import EvalReport as EvalReport
    from duologue.evals.report.eval_report import make_report as make_report
    from duologue.evals.report.exports.atif import write_atif as write_atif
    from duologue.evals.report.exports.inspect_log import write_inspect_logs as write_inspect_logs
    from duologue.evals.report.exports.junit import to_junit as to_junit
    from duologue.evals.report.exports.swebench import Predictions as Predictions
    from duologue.evals.report.exports.swebench import to_swebench as to_swebench
    from duologue.evals.report.exports.trial_table import to_csv as to_csv
    from duologue.evals.report.exports.trial_table import to_json_lines as to_json_lines
    from duologue.evals.report.harness_results import read_harness_run as read_harness_run
    from duologue.evals.report.markdown import to_markdown as to_markdown
    from duologue.evals.report.page.document import to_html as to_html
    from duologue.evals.report.reference_check import ReferenceResult as ReferenceResult
    from duologue.evals.report.reference_check import check_references as check_references
    from duologue.evals.report.regrade import Regrade as Regrade
    from duologue.evals.report.regrade import RegradedTrial as RegradedTrial
    from duologue.evals.report.regrade import regrade_run as regrade_run
    from duologue.evals.report.run_comparison import AgentComparison as AgentComparison
    from duologue.evals.report.run_comparison import CaseDifference as CaseDifference
    from duologue.evals.report.run_comparison import RunComparison as RunComparison
    from duologue.evals.report.run_comparison import compare_runs as compare_runs
    from duologue.evals.report.run_summary import AgentSummary as AgentSummary
    from duologue.evals.report.run_summary import CaseSummary as CaseSummary
    from duologue.evals.report.run_summary import RunSummary as RunSummary
    from duologue.evals.report.run_summary import read_run as read_run
    from duologue.evals.report.thresholds import Threshold as Threshold
    from duologue.evals.report.thresholds import parse_threshold as parse_threshold
    from duologue.evals.report.thresholds import unmet_thresholds as unmet_thresholds
    from duologue.evals.report.trial_summary import TrialSummary as TrialSummary
    from duologue.evals.run.attach_server import serve_trials as serve_trials
    from duologue.evals.run.credentials import CredentialFile as CredentialFile
    from duologue.evals.run.options import RunLimits as RunLimits
    from duologue.evals.run.options import TrialOptions as TrialOptions
    from duologue.evals.run.progress import RunProgress as RunProgress
    from duologue.evals.run.progress import TrialEvent as TrialEvent
    from duologue.evals.run.suite_run import RunEnd as RunEnd
    from duologue.evals.run.suite_run import run_suite as run_suite
    from duologue.evals.run.targets import EvalAgent as EvalAgent
    from duologue.evals.run.watched_trial import TrialWatch as TrialWatch
    from duologue.evals.run.watched_trial import WatchedTrial as WatchedTrial
    from duologue.evals.schemas import json_schema as json_schema
    from duologue.evals.statistics.agreement import ConfusionMatrix as ConfusionMatrix
    from duologue.evals.statistics.agreement import confusion_matrix as confusion_matrix
    from duologue.evals.statistics.agreement import krippendorff_alpha as krippendorff_alpha
    from duologue.evals.statistics.case_trials import CaseTrials as CaseTrials
    from duologue.evals.statistics.comparison import PairedComparison as PairedComparison
    from duologue.evals.statistics.comparison import compare as compare
    from duologue.evals.statistics.comparison import compare_all as compare_all
    from duologue.evals.statistics.comparison import compare_pairs as compare_pairs
    from duologue.evals.statistics.flakiness import Flakiness as Flakiness
    from duologue.evals.statistics.flakiness import flakiness as flakiness
    from duologue.evals.statistics.flakiness import flip_rate_between as flip_rate_between
    from duologue.evals.statistics.intervals import Estimate as Estimate
    from duologue.evals.statistics.intervals import Interval as Interval
    from duologue.evals.statistics.intervals import estimate as estimate
    from duologue.evals.statistics.intervals import wilson as wilson
    from duologue.evals.statistics.passes import pass_at_k as pass_at_k
    from duologue.evals.statistics.passes import pass_hat_k as pass_hat_k
    from duologue.evals.statistics.power import cases_needed as cases_needed
    from duologue.evals.statistics.power import minimum_detectable_effect as minimum_detectable_effect
    from duologue.evals.suite.case import Case as Case
    from duologue.evals.suite.case import PromptTurn as PromptTurn
    from duologue.evals.suite.loader import load_suite as load_suite
    from duologue.evals.suite.suite import Suite as Suite
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "duologue.evals.engines.address": "open_engine",
            "duologue.evals.engines.interface": "Engine EngineError",
            "duologue.evals.exceptions": "EvalError GraderError RecordError SuiteError",
            "duologue.evals.graders.grading": "grade_record grade_trial",
            "duologue.evals.graders.interface": "GraderInput",
            "duologue.evals.record.key": "TrialKey",
            "duologue.evals.record.manifest": "AgentIdentity RunManifest TrialManifest",
            "duologue.evals.record.outcomes": "OUTCOMES TrialOutcome outcome_of_error outcome_of_stop",
            "duologue.evals.record.result": "Grade GraderOutput Grades TrialMetrics TrialResult final_outcome",
            "duologue.evals.record.run_directory": "RunDirectory",
            "duologue.evals.record.trajectory": "TrajectoryStep",
            "duologue.evals.record.trajectory_reader": "read_trajectory",
            "duologue.evals.record.trial_record": "TrialRecord",
            "duologue.evals.report.balance": "BalanceAnalysis Category analyze_balance",
            "duologue.evals.report.calibration": "Calibration TrialLabel calibrate read_labels sample_to_label",
            "duologue.evals.report.eval_report": "AgentRow Amount CaseRow EvalReport make_report",
            "duologue.evals.report.exports.atif": "write_atif",
            "duologue.evals.report.exports.inspect_log": "write_inspect_logs",
            "duologue.evals.report.exports.junit": "to_junit",
            "duologue.evals.report.exports.swebench": "Predictions to_swebench",
            "duologue.evals.report.exports.trial_table": "to_csv to_json_lines",
            "duologue.evals.report.harness_results": "read_harness_run",
            "duologue.evals.report.markdown": "to_markdown",
            "duologue.evals.report.page.document": "to_html",
            "duologue.evals.report.reference_check": "ReferenceResult check_references",
            "duologue.evals.report.regrade": "Regrade RegradedTrial regrade_run",
            "duologue.evals.report.run_comparison": "AgentComparison CaseDifference RunComparison compare_runs",
            "duologue.evals.report.run_summary": "AgentSummary CaseSummary RunSummary read_run",
            "duologue.evals.report.thresholds": "Threshold parse_threshold unmet_thresholds",
            "duologue.evals.report.trial_summary": "TrialSummary",
            "duologue.evals.run.attach_server": "serve_trials",
            "duologue.evals.run.credentials": "CredentialFile",
            "duologue.evals.run.options": "RunLimits TrialOptions",
            "duologue.evals.run.progress": "RunProgress TrialEvent",
            "duologue.evals.run.suite_run": "RunEnd run_suite",
            "duologue.evals.run.targets": "EvalAgent",
            "duologue.evals.run.watched_trial": "TrialWatch WatchedTrial",
            "duologue.evals.schemas": "json_schema",
            "duologue.evals.statistics.agreement": "ConfusionMatrix confusion_matrix krippendorff_alpha",
            "duologue.evals.statistics.case_trials": "CaseTrials",
            "duologue.evals.statistics.comparison": "PairedComparison compare compare_all compare_pairs",
            "duologue.evals.statistics.flakiness": "Flakiness flakiness flip_rate_between",
            "duologue.evals.statistics.intervals": "Estimate Interval estimate wilson",
            "duologue.evals.statistics.passes": "pass_at_k pass_hat_k",
            "duologue.evals.statistics.power": "cases_needed minimum_detectable_effect",
            "duologue.evals.suite.case": "Case PromptTurn",
            "duologue.evals.suite.loader": "load_suite",
            "duologue.evals.suite.suite": "Suite",
        },
    )
