"""Makes a folder of documents searchable for a model: WorkspaceEngine, and its tools.

`docs/workspace_api.md` describes both. The package exists so that tool calls in training data and
at run time have the same names, arguments and results.
"""

from mypt_infer.workspace.build import Report
from mypt_infer.workspace.engine import MAX_TOP_K, WorkspaceEngine
from mypt_infer.workspace.files import Skipped
from mypt_infer.workspace.index.embed import Called, Embedder, EmbedderError
from mypt_infer.workspace.index.model import Chunk, Document
from mypt_infer.workspace.index.store import IndexBusyError, WorkspaceError
from mypt_infer.workspace.tools import TOOL_REGISTRY, WorkspaceTools, toolbox

__all__ = [
    "MAX_TOP_K", "TOOL_REGISTRY", "Called", "Chunk", "Document", "Embedder", "EmbedderError",
    "IndexBusyError", "Report", "Skipped", "WorkspaceEngine",
    "WorkspaceError", "WorkspaceTools", "toolbox",
]  # fmt: skip
