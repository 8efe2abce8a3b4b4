import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Details } from "./details";
import { FilterBar } from "./filter_bar";
import { type Filters, isFiltered, NO_FILTERS, select } from "./filters";
import { Help } from "./help";
import { useKeys } from "./keys";
import { type Row, RowStore } from "./rows";
import type { Recording, RecordingInfo, Source } from "./source";
import { number, plain } from "./text";
import { ThemeButton } from "./theme";
import { Conversation } from "./views/conversation";
import { Diff } from "./views/diff";
import { Findings } from "./views/findings";
import { Sequence } from "./views/sequence";
import { StatisticsView } from "./views/statistics";
import { Timeline } from "./views/timeline";
import { Waterfall } from "./views/waterfall";

const ALL_VIEWS = ["timeline", "sequence", "conversation", "latency", "findings", "statistics", "diff"] as const;
type View = (typeof ALL_VIEWS)[number];

const NARROW = "(max-width: 760px)";
const NOTHING: ReadonlySet<number> = new Set();
const SEARCH_DELAY = 250;
const RETRY_MILLISECONDS = 2000;

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => setMatches(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return matches;
}

interface Loaded {
  store: RowStore;
  /** Grows with every page of rows, so that what depends on them is computed again. */
  version: number;
  info: RecordingInfo | null;
  isComplete: boolean;
  error: string;
}

const NOT_LOADED: Loaded = { store: new RowStore(), version: 0, info: null, isComplete: false, error: "" };

/** Read all rows of a recording, and go on while it grows. */
function useRecording(source: Source, recording: string | null): Loaded {
  const [loaded, setLoaded] = useState<Loaded>(NOT_LOADED);
  useEffect(() => {
    if (recording === null) return undefined;
    const abort = new AbortController();
    const store = new RowStore();
    const read = async () => {
      let isComplete = false;
      for (let version = 1; !abort.signal.aborted; version += 1) {
        try {
          const page = await source.rows(recording, store.rows.length, isComplete, abort.signal);
          store.add(page.rows);
          isComplete = page.isEnd;
          if (abort.signal.aborted) return;
          setLoaded({ store, version, info: page.info, isComplete, error: "" });
          if (isComplete && !source.isLive) return;
        } catch (error) {
          if (abort.signal.aborted) return;
          setLoaded((before) => ({ ...before, error: error instanceof Error ? error.message : String(error) }));
          await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
        }
      }
    };
    setLoaded({ ...NOT_LOADED, store });
    void read();
    return () => abort.abort();
  }, [source, recording]);
  return loaded;
}

/** Find the frames whose whole content has a text; the rows know only its beginning. */
function useSearch(source: Source, recording: string | null, text: string): { found: ReadonlySet<number>; isRunning: boolean } {
  const [result, setResult] = useState<{ found: ReadonlySet<number>; isRunning: boolean }>({ found: NOTHING, isRunning: false });
  useEffect(() => {
    const abort = new AbortController();
    const search = async () => {
      const found = new Set<number>();
      for await (const numbers of source.search(recording!, text, abort.signal)) {
        if (abort.signal.aborted) return;
        numbers.forEach((each) => found.add(each));
        if (numbers.length) setResult({ found: new Set(found), isRunning: true });
      }
      if (!abort.signal.aborted) setResult({ found, isRunning: false });
    };
    setResult({ found: NOTHING, isRunning: text !== "" });
    const timer = setTimeout(() => {
      if (text && recording !== null) search().catch(() => setResult((before) => ({ ...before, isRunning: false })));
    }, SEARCH_DELAY);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [source, recording, text]);
  return result;
}

export function App({ source }: { source: Source }) {
  const [recordings, setRecordings] = useState<Recording[]>([]);
  const [recording, setRecording] = useState<string | null>(source.isLive ? null : "");
  const [view, setView] = useState<View>("timeline");
  const [filters, setFilters] = useState<Filters>(NO_FILTERS);
  const [selected, setSelected] = useState<number | null>(null);
  const [isOpen, setOpen] = useState(false);
  const [isFollowing, setFollowing] = useState(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [failure, setFailure] = useState("");
  const isNarrow = useMedia(NARROW);
  const searchBox = useRef<HTMLInputElement>(null);

  const { store, version, info, isComplete, error } = useRecording(source, recording);
  const { found, isRunning } = useSearch(source, recording, filters.text);
  const rows = store.rows;
  const views = ALL_VIEWS.filter((each) => each !== "diff" || recordings.length > 1);
  const indices = useMemo(() => select(rows, filters, found), [rows, version, filters, found]);

  const refresh = useCallback(() => {
    source.recordings().then(
      (list) => {
        setRecordings(list);
        setFailure("");
        if (list.length) setRecording((before) => before ?? list[0]!.name);
      },
      (reason: unknown) => setFailure(reason instanceof Error ? reason.message : String(reason)),
    );
  }, [source]);
  useEffect(refresh, [refresh]);
  useEffect(() => {
    if (info) document.title = `${plain(info.name)} · duologue inspector`;
  }, [info?.name]);

  const position = useMemo(() => positionOf(indices, selected === null ? -1 : store.indexOf(selected)), [indices, selected]);
  const row = selected === null ? undefined : store.get(selected);
  const pair = row && pairOf(store, row);

  const open = (frame: number) => {
    setSelected(frame);
    setOpen(true);
    setFollowing(false);
  };
  const jump = (frame: number) => {
    if (positionOf(indices, store.indexOf(frame)) < 0) setFilters(NO_FILTERS);
    open(frame);
  };
  const choose = (name: string) => {
    setRecording(name);
    setSelected(null);
    setOpen(false);
    setFilters(NO_FILTERS);
  };
  const move = (steps: number) => {
    if (!indices.length) return;
    const next = position < 0 && Math.abs(steps) === 1 ? 0 : position + steps;
    setSelected(rows[indices[Math.max(0, Math.min(indices.length - 1, next))]!]!.number);
    setFollowing(false);
  };
  const moveToProblem = () => {
    for (let next = position + 1; next < indices.length; next += 1) {
      if (rows[indices[next]!]!.problems.length) return open(rows[indices[next]!]!.number);
    }
  };

  useKeys({
    next: () => move(1),
    previous: () => move(-1),
    nextPage: () => move(20),
    previousPage: () => move(-20),
    first: () => move(-Infinity),
    last: () => move(Infinity),
    open: () => selected !== null && setOpen(true),
    pair: () => pair && jump(pair.number),
    problem: moveToProblem,
    search: () => searchBox.current?.focus(),
    follow: () => source.isLive && setFollowing(!isFollowing),
    help: () => setHelpOpen(!isHelpOpen),
    view: (index) => views[index] && setView(views[index]),
    escape: () => {
      if (isHelpOpen) setHelpOpen(false);
      else if (document.activeElement === searchBox.current && !filters.text) searchBox.current?.blur();
      else if (filters.text) setFilters({ ...filters, text: "" });
      else if (isOpen) setOpen(false);
      else if (isFiltered(filters)) setFilters(NO_FILTERS);
    },
  });

  const list = { rows, indices, selected: position, isNarrow, isFollowing, onSelect: open };
  const load = (wanted: Row) => source.content(recording ?? "", store.indexOf(wanted.number), wanted.number);
  return (
    <div class={isOpen && row ? "page with-details" : "page"}>
      <header class="top">
        <h1>
          <span class="brand">duologue</span>
          {recordings.length > 1 ? (
            <select aria-label="Recording" value={recording ?? ""} onFocus={refresh} onChange={(event) => choose(event.currentTarget.value)}>
              {recordings.map((each) => (
                <option value={each.name}>{plain(each.name)}</option>
              ))}
            </select>
          ) : (
            <bdi class="recording">{info ? plain(info.name) : ""}</bdi>
          )}
          {info && info.agent.length > 0 && (
            <bdi class="agent" title="Command of the agent">
              {plain(info.agent.join(" "))}
            </bdi>
          )}
        </h1>
        <nav aria-label="Views">
          <div role="tablist" aria-label="Views">
            {views.map((each) => (
              <button type="button" role="tab" id={`tab-${each}`} aria-selected={view === each} aria-controls="view" tabIndex={view === each ? 0 : -1} onClick={() => setView(each)}>
                {each}
                {each === "findings" && store.problems > 0 && <span class="badge">{number(store.problems)}</span>}
              </button>
            ))}
          </div>
        </nav>
        <div class="tools">
          <ThemeButton />
          <button type="button" class="icon" aria-label="Keys" title="Keys (?)" onClick={() => setHelpOpen(true)}>
            ?
          </button>
        </div>
      </header>
      <FilterBar filters={filters} store={store} version={version} onChange={setFilters} searchBox={searchBox} isSearching={isRunning} />
      <main>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${view}`}>
        {(failure || error) && (
          <p class="alert" role="alert">
            {plain(failure || error)}
          </p>
        )}
        {view === "timeline" && <Timeline {...list} />}
        {view === "sequence" && <Sequence {...list} />}
        {view === "conversation" && (
          <Conversation
            key={recording}
            load={(start) => source.conversation(recording ?? "", start)}
            frames={rows.length}
            isComplete={isComplete}
            session={filters.session}
            text={filters.text}
            selected={selected}
            onSelect={open}
          />
        )}
        {view === "latency" && <Waterfall {...list} answer={(each) => (each.answer === null ? undefined : store.get(each.answer))} />}
        {view === "findings" && <Findings rows={rows} indices={indices} onSelect={open} />}
        {view === "diff" && recording !== null && (
          <Diff key={recording} recording={recording} recordings={recordings} load={(first, second) => source.diff(first, second)} onSelect={open} />
        )}
        {view === "statistics" && info && (
          <StatisticsView
            info={info}
            frames={rows.length}
            load={() => source.statistics(recording ?? "")}
            onMethod={(method) => {
              setFilters({ ...NO_FILTERS, method });
              setView("timeline");
            }}
          />
        )}
        </div>
      </main>
      {isOpen && row && <Details row={row} load={load} pair={pair} onJump={jump} onClose={() => setOpen(false)} />}
      <footer class="bottom">
        <span role="status">
          {number(indices.length)}
          {indices.length === rows.length ? "" : ` of ${number(rows.length)}`} frames
          {isComplete ? "" : ", reading …"}
        </span>
        {info?.is_cut && <span class="note">The recording has more frames than this page lists: use `duologue trace` for the rest.</span>}
        {info !== null && info.damaged > 0 && <span class="note">{number(info.damaged)} damaged lines were left out</span>}
        {source.isLive && (
          <button type="button" aria-pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>
            follow
          </button>
        )}
        <span class="keys" aria-hidden="true">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>p</kbd> pair · <kbd>/</kbd> search · <kbd>?</kbd> keys
        </span>
      </footer>
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

function pairOf(store: RowStore, row: Row): Row | undefined {
  const other = row.kind === "request" ? row.answer : row.answers;
  return other === null ? undefined : store.get(other);
}

/** Return the position of an index in an ascending list, or -1. */
function positionOf(indices: number[], index: number): number {
  let low = 0;
  let high = indices.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (indices[middle] === index) return middle;
    if (indices[middle]! < index) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
