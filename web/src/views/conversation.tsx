import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { LongText } from "../json";
import type { Item } from "../source";
import { duration, number, plain, seconds } from "../text";

const CHUNK = 40;
const GUESSED_HEIGHT = 60;
/** Items that the page asks for at once. */
const PAGE = 1000;

interface Props {
  load: (start: number) => Promise<Item[]>;
  /** Changes when there are more frames. */
  frames: number;
  isComplete: boolean;
  session: string;
  text: string;
  selected: number | null;
  onSelect: (number: number) => void;
}

/** Add items; one that continues the message before it becomes a part of it. */
function joined(before: Item[], items: Item[]): Item[] {
  const all = [...before];
  for (const item of items) {
    const last = all.at(-1);
    if (item.continues && last && last.kind === item.kind && last.role === item.role && last.session === item.session) {
      all[all.length - 1] = { ...last, text: (last.text ?? "") + (item.text ?? "") };
    } else {
      all.push(item);
    }
  }
  return all;
}

function useItems({ load, frames, isComplete }: Props): { items: Item[]; isReady: boolean } {
  const [items, setItems] = useState<Item[]>([]);
  const [isReady, setReady] = useState(false);
  const state = useRef({ loaded: 0, isRunning: false, isGone: false });
  useEffect(() => () => void (state.current.isGone = true), []);
  useEffect(() => {
    const { current } = state;
    if (!isComplete || current.isRunning) return;
    current.isRunning = true;
    const read = async () => {
      for (let count = PAGE; count === PAGE && !current.isGone; ) {
        const more = await load(current.loaded);
        count = more.length;
        current.loaded += count;
        if (count) setItems((before) => joined(before, more));
        setReady(true);
      }
    };
    read()
      .catch(() => setReady(true))
      .finally(() => {
        current.isRunning = false;
      });
  }, [frames, isComplete]);
  return { items, isReady };
}

export function Conversation(props: Props) {
  const { items, isReady } = useItems(props);
  const { session, selected } = props;
  const text = props.text.toLowerCase();
  const shown = useMemo(
    () =>
      items.filter(
        (item) =>
          (!session || item.session === session) &&
          (!text || (item.text ?? "").toLowerCase().includes(text) || (item.title ?? "").toLowerCase().includes(text)),
      ),
    [items, session, text],
  );
  const current = useMemo(() => itemOf(shown, selected), [shown, selected]);
  const box = useRef<HTMLDivElement>(null);
  // The selected frame is in view when the view opens, and when the keyboard moves on.
  useLayoutEffect(() => {
    if (current < 0) return;
    const found = box.current?.querySelector(`[data-item="${current}"]`) ?? box.current?.children[Math.floor(current / CHUNK)];
    found?.scrollIntoView({ block: "nearest" });
  }, [current, shown.length > 0]);

  if (!isReady) return <p class="note panel">Reading …</p>;
  if (!shown.length) {
    return (
      <div class="panel empty">
        <p class="big">No conversation</p>
        <p class="note">{items.length ? "Nothing matches the search or the session." : "This recording has no prompts or messages."}</p>
      </div>
    );
  }
  const chunks = Math.ceil(shown.length / CHUNK);
  return (
    <div ref={box} class="panel conversation" tabIndex={0} role="region" aria-label="Conversation">
      {Array.from({ length: chunks }, (_, index) => (
        <Chunk key={index} items={shown} first={index * CHUNK} current={current} onSelect={props.onSelect} />
      ))}
    </div>
  );
}

/** Return the index of the item that a frame belongs to: the last that began with or before it. */
function itemOf(items: Item[], frame: number | null): number {
  if (frame === null) return -1;
  let found = -1;
  items.forEach((item, index) => {
    if (item.number <= frame && (found < 0 || item.number >= items[found]!.number)) found = index;
  });
  return found;
}

/** Some items, which are in the page only while they are near the part that can be seen. */
function Chunk({ items, first, current, onSelect }: { items: Item[]; first: number; current: number; onSelect: (number: number) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(first === 0);
  const height = useRef(0);
  const count = Math.min(CHUNK, items.length - first);
  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting) height.current = entry.boundingClientRect.height;
        setNear(entry.isIntersecting);
      },
      { root: element.parentElement, rootMargin: "1200px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={box} class="chunk" style={isNear ? {} : { height: `${height.current || count * GUESSED_HEIGHT}px` }}>
      {isNear &&
        items.slice(first, first + CHUNK).map((item, index) => (
          <ItemView key={item.number + item.kind} item={item} index={first + index} isSelected={first + index === current} onSelect={onSelect} />
        ))}
    </div>
  );
}

function ItemView({ item, index, isSelected, onSelect }: { item: Item; index: number; isSelected: boolean; onSelect: (number: number) => void }) {
  const style = item.kind === "message" && item.role === "thought" ? "message thought" : item.kind;
  const isSmall = ["connection", "session", "update", "request", "permission", "permission_answer"].includes(item.kind);
  return (
    <div class={`item ${style}${isSmall ? " small" : ""}${isSelected ? " selected" : ""}`} data-item={index}>
      <button type="button" class="at" aria-label={`Frame ${item.number}, second ${seconds(item.t)}`} onClick={() => onSelect(item.number)}>
        {seconds(item.t)}
      </button>
      <div class="body">
        <Body item={item} />
        {item.characters ? <p class="note">Cut; the whole text has {number(item.characters)} characters.</p> : null}
      </div>
    </div>
  );
}

function Status({ status }: { status: string }) {
  const style = /^(allow|reject)/.exec(status)?.[0] ?? status;
  return <span class={`status ${plain(style)}`}>{plain(status).replaceAll("_", " ")}</span>;
}

function Took({ item }: { item: Item }) {
  return item.seconds === undefined ? null : <span class="note">{duration(item.seconds)}</span>;
}

const AUTHORS: Record<string, string> = { prompt: "user", agent: "agent", assistant: "agent", user: "user", thought: "thought" };

function Body({ item }: { item: Item }) {
  const title = plain(item.title ?? "");
  const text = item.text ?? "";
  switch (item.kind) {
    case "prompt":
    case "message":
      return (
        <>
          <div class="author">
            {item.kind === "prompt" ? (item.status === "steering" ? "user, while the agent works" : "user") : (AUTHORS[item.role ?? ""] ?? plain(item.role ?? ""))}
          </div>
          <div class="said">
            <LongText text={text} />
          </div>
        </>
      );
    case "tool_call":
      return (
        <>
          <div class="head">
            <span class="kind">{plain(item.tool_kind || "tool")}</span>
            <bdi>{title}</bdi>
            {item.status && <Status status={item.status} />}
            <Took item={item} />
          </div>
          {(item.changes ?? []).map(([path, operation]) => (
            <div>
              <code>{plain(path)}</code> <span class="note">{plain(operation || "changed")}</span>
            </div>
          ))}
          {text && (
            <pre class="output" tabIndex={0}>
              <LongText text={text} />
            </pre>
          )}
        </>
      );
    case "plan":
      return (
        <>
          <div class="author">plan</div>
          {text && (
            <div class="said">
              <LongText text={text} />
            </div>
          )}
          <ul class="steps">
            {(item.entries ?? []).map(([step, status]) => (
              <li>
                <span class={status === "completed" ? "done" : ""}>{plain(step)}</span> {status !== "completed" && <Status status={status} />}
              </li>
            ))}
          </ul>
        </>
      );
    case "permission":
      return (
        <div class="head">
          <span>permission asked:</span>
          <bdi>{title}</bdi>
          <span class="note">{plain((item.options ?? []).join(" · "))}</span>
        </div>
      );
    case "permission_answer":
      return (
        <div class="head">
          <span>permission answered:</span>
          <bdi>{plain(text)}</bdi>
          {item.status && <Status status={item.status} />}
          <Took item={item} />
        </div>
      );
    case "stop":
      return (
        <div class="head">
          <span>turn ended:</span>
          <Status status={item.status ?? ""} />
          <bdi>{plain(text)}</bdi>
          <Took item={item} />
        </div>
      );
    case "stderr":
      return (
        <>
          <div class="author">stderr</div>
          <pre class="output" tabIndex={0}>
            <LongText text={text} />
          </pre>
        </>
      );
    case "exit":
      return <span>the agent ended with exit code {plain(item.status ?? "")}</span>;
    case "gap":
      return <span>{plain(text)} frames are missing here</span>;
    default:
      return (
        <div class="head">
          <bdi>{title || plain(item.kind)}</bdi>
          <bdi>{plain(text.slice(0, 2000))}</bdi>
          <Took item={item} />
        </div>
      );
  }
}
