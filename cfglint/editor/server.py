"""The language server: buffers in, diagnostics, hovers and code actions out.

Protocol handlers run in the event loop; everything that reads or lints runs in one worker thread (a run changes the
working directory, and contexts are not made for two threads). Nothing a client sends and nothing a file holds may end
the server: what goes wrong is written to the client's log.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from cfglint import __version__
from cfglint.discovery import EXTENSIONS
from cfglint.editor.actions import code_actions
from cfglint.editor.diagnostics import View, diagnostics
from cfglint.editor.hover import hover
from cfglint.editor.project import Analysis, Project, Root, root_of

T = TypeVar("T")

TYPING_PAUSE: Final = 0.2
"""Seconds without a change before a file is linted again."""
GATHERING_PAUSE: Final = 0.03
"""Seconds to wait after opening or saving: editors open several files at once."""

_SETTINGS_FILES: Final = ("cfglint.toml", "pyproject.toml")


@dataclass(slots=True)
class _Work:
    """What is under way for a project: a timer that will start a run, and whether one is running or wanted after it."""

    timer: asyncio.TimerHandle | None = None
    running: bool = False
    again: bool = False


class CfglintServer(LanguageServer):
    """One client's server. ``shut_down`` tells an orderly end from a client that went away."""

    def __init__(self) -> None:
        # whole texts: pygls applies partial changes by lines that also end at form feeds and U+2028, editors do not
        super().__init__("cfglint", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.shut_down = False
        self._projects: dict[Root, Project] = {}
        self._work: dict[Root, _Work] = {}
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cfglint")
        self._tasks: set[asyncio.Task[None]] = set()

    # Projects and documents ------------------------------------------------------------------------------------------

    def project_of(self, uri: str) -> tuple[Project, str] | None:
        """The project of a document and the document's path in it; None for what is no file."""
        path = to_fs_path(uri)
        if not path or not os.path.isabs(path) or "\0" in path:
            return None
        path = os.path.normpath(path)
        root = root_of(path, self._workspace_folders())
        project = self._projects.get(root)
        if project is None:
            project = self._projects[root] = Project(root)
        return project, project.relative(path)

    def _workspace_folders(self) -> list[str]:
        uris = list(self.workspace.folders) or ([self.workspace.root_uri] if self.workspace.root_uri else [])
        return [path for uri in uris if (path := to_fs_path(uri))]

    def open_documents(self, project: Project) -> dict[str, TextDocument]:
        """The project's open documents by path from its root."""
        found = {}
        for document in self.workspace.text_documents.values():
            placed = self.project_of(document.uri)
            if placed is not None and placed[0] is project:
                found[placed[1]] = document
        return found

    async def analysis(self, project: Project) -> Analysis:
        """The project as it is now, in the editor's view of it. Raises what a fault of cfglint raises."""
        buffers = {path: document.source for path, document in self.open_documents(project).items()}
        return await self.in_worker(lambda: project.current(buffers))

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run in the worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def view(self, project: Project, analysis: Analysis) -> View:
        """The analysis as this client is to see it."""
        published = self._text_capability("publish_diagnostics")
        return View(
            analysis,
            encoding=str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding)),
            uris={path: document.uri for path, document in self.open_documents(project).items()},
            related=bool(getattr(published, "related_information", False)),
            tags=getattr(published, "tag_support", None) is not None,
        )

    def _text_capability(self, name: str) -> Any:
        return getattr(self.client_capabilities.text_document, name, None)

    @property
    def markdown(self) -> bool:
        """True where the client shows Markdown in hovers."""
        formats = getattr(self._text_capability("hover"), "content_format", None) or ()
        return types.MarkupKind.Markdown in formats

    # Diagnostics -----------------------------------------------------------------------------------------------------

    def lint_soon(self, project: Project, pause: float) -> None:
        """Lint the project after a pause in which nothing else asks for it."""
        work = self._work.setdefault(project.root, _Work())
        if work.timer is not None:
            work.timer.cancel()
        work.timer = asyncio.get_running_loop().call_later(pause, self._start, project)

    def _start(self, project: Project) -> None:
        work = self._work.setdefault(project.root, _Work())
        work.timer = None
        if work.running:
            work.again = True
            return
        work.running = True
        task = asyncio.get_running_loop().create_task(self._publish(project, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish(self, project: Project, work: _Work) -> None:
        try:
            while True:
                work.again = False
                await self._publish_once(project)
                if not work.again:
                    break
        except Exception as error:
            self.log_fault(error)
        finally:
            work.running = False

    async def _publish_once(self, project: Project) -> None:
        analysis = await self.analysis(project)
        view = self.view(project, analysis)
        open_now = self.open_documents(project)
        made = await self.in_worker(
            lambda: {path: diagnostics(view, path) for path in open_now if path in analysis.buffers}
        )
        for path, document in self.open_documents(project).items():
            # a text that has changed meanwhile is linted again soon; what was found in the old one is in the wrong place
            if path in made and document.source == analysis.buffers[path]:
                self.text_document_publish_diagnostics(
                    types.PublishDiagnosticsParams(document.uri, made[path], document.version)
                )

    def refresh(self, uri: str) -> None:
        """A file was saved, or changed on disk: look at its project anew; at all where it is a settings file."""
        placed = self.project_of(uri)
        if placed is None:
            return
        everywhere = os.path.basename(placed[1]) in _SETTINGS_FILES
        for project in list(self._projects.values()) if everywhere else [placed[0]]:
            project.refresh()
            if self.open_documents(project):
                self.lint_soon(project, GATHERING_PAUSE)

    # Faults ----------------------------------------------------------------------------------------------------------

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Faults go to the log; a message box for each would stand in the way of work."""
        self.log_fault(error)

    def log_fault(self, error: BaseException) -> None:
        """Write a fault to the client's log, and its traceback to standard error."""
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
        message = f"cfglint: {type(error).__name__}: {error}"
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))


def create_server() -> CfglintServer:
    """A server with its handlers, not yet listening."""
    server = CfglintServer()

    @server.feature(types.INITIALIZED)
    def initialized(ls: CfglintServer, params: types.InitializedParams) -> None:
        _watch_files(ls)

    @server.feature(types.SHUTDOWN)
    def shutdown(ls: CfglintServer, params: None) -> None:
        ls.shut_down = True

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(ls: CfglintServer, params: types.DidOpenTextDocumentParams) -> None:
        placed = ls.project_of(params.text_document.uri)
        if placed is not None:
            ls.lint_soon(placed[0], GATHERING_PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(ls: CfglintServer, params: types.DidChangeTextDocumentParams) -> None:
        placed = ls.project_of(params.text_document.uri)
        if placed is not None:
            ls.lint_soon(placed[0], TYPING_PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(ls: CfglintServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.refresh(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: CfglintServer, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        placed = ls.project_of(uri)
        if placed is not None and ls.open_documents(placed[0]):
            ls.lint_soon(placed[0], GATHERING_PAUSE)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched_files_changed(ls: CfglintServer, params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            ls.refresh(change.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(ls: CfglintServer, params: types.DidChangeWorkspaceFoldersParams) -> None:
        for document in list(ls.workspace.text_documents.values()):
            ls.refresh(document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configuration_changed(ls: CfglintServer, params: types.DidChangeConfigurationParams) -> None:
        """Settings are read from the project's own files; clients send this all the same."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def on_hover(ls: CfglintServer, params: types.HoverParams) -> types.Hover | None:
        uri, position, markdown = params.text_document.uri, params.position, ls.markdown

        def at(view: View, path: str) -> types.Hover | None:
            offset = view.positions(view.analysis.files[path]).offset(position)
            return hover(view, path, offset, markdown=markdown)

        return await _asked(ls, uri, at, None)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    async def on_code_action(ls: CfglintServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        only = params.context.only
        if only and not any(types.CodeActionKind.QuickFix.value.startswith(str(getattr(k, "value", k))) for k in only):
            return []
        return await _asked(ls, params.text_document.uri, lambda v, path: code_actions(v, path, params.range), [])

    return server


async def _asked(ls: CfglintServer, uri: str, answer: Callable[[View, str], T], nothing: T) -> T:
    """An answer about an open document as it is now; ``nothing`` where it is none of ours, or where something fails."""
    try:
        placed = ls.project_of(uri)
        if placed is None or placed[1] not in ls.open_documents(placed[0]):
            return nothing
        project, path = placed
        analysis = await ls.analysis(project)
        if path not in analysis.files:
            return nothing
        view = ls.view(project, analysis)
        return await ls.in_worker(lambda: answer(view, path))
    except Exception as error:
        ls.log_fault(error)
        return nothing


def _watch_files(ls: CfglintServer) -> None:
    """Ask the client to say when files of our kinds change on disk, where it can."""
    workspace = ls.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is None or not watching.dynamic_registration:
        return
    endings = ",".join(sorted(extension.lstrip(".") for extension in EXTENSIONS))
    options = types.DidChangeWatchedFilesRegistrationOptions(
        [types.FileSystemWatcher(f"**/*.{{{endings}}}"), types.FileSystemWatcher("**/*[Dd]ockerfile*")]
    )
    registration = types.Registration("cfglint-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    ls.client_register_capability(types.RegistrationParams([registration]))


def serve() -> int:
    """Serve on standard input and output. Returns the exit code: 1 where the client went without asking for shutdown."""
    server = create_server()
    out = sys.stdout.buffer
    # a stray print of a rule or a plugin must not end up between the messages
    sys.stdout = sys.stderr
    server.start_io(sys.stdin.buffer, out)
    return 0 if server.shut_down else 1
