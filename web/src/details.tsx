import { useEffect, useState } from "preact/hooks";
import { Json, LongText } from "./json";
import { nameOf, type Row } from "./rows";
import type { Content } from "./source";
import { bytes, duration, number, plain, seconds } from "./text";

interface Props {
  row: Row;
  load: (row: Row) => Promise<Content | null>;
  pair: Row | undefined;
  onJump: (number: number) => void;
  onClose: () => void;
}

export const RECEIVERS = { to_agent: "to the agent", to_client: "to the client", "": "" };

export function Details({ row, load, pair, onJump, onClose }: Props) {
  const [content, setContent] = useState<Content | null | undefined>(undefined);
  const [copied, setCopied] = useState("");
  useEffect(() => {
    let isCurrent = true;
    setContent(undefined);
    setCopied("");
    load(row).then(
      (found) => isCurrent && setContent(found),
      () => isCurrent && setContent(null),
    );
    return () => {
      isCurrent = false;
    };
  }, [row.number]);

  const copy = () => {
    if (!content) return;
    navigator.clipboard?.writeText(content.text).then(
      () => setCopied("Copied"),
      () => setCopied("The browser did not allow it"),
    );
  };

  const facts: [string, string][] = [
    ["time", `${seconds(row.t)} s`],
    ["receiver", RECEIVERS[row.dir]],
    ["id", row.id === null ? "" : plain(String(row.id))],
    ["session", plain(row.session)],
    ["size", row.size ? bytes(row.size) : ""],
    ["latency", row.latency === null ? "" : duration(row.latency)],
  ];
  const isJson = row.kind !== "stderr" && row.kind !== "exit" && row.kind !== "gap" && row.kind !== "invalid";
  return (
    <section class="details" aria-label="Details of the frame">
      <header>
        <h2>
          <span class={`kind ${row.kind}`}>{row.kind}</span> <bdi>{plain(nameOf(row))}</bdi> <span class="number">#{row.number}</span>
        </h2>
        <button type="button" class="close" onClick={onClose} aria-label="Close details" title="Close (Esc)">
          ×
        </button>
      </header>
      <dl>
        {row.update && (
          <div>
            <dt>method</dt>
            <dd>{plain(row.method)}</dd>
          </div>
        )}
        {facts.map(
          ([name, value]) =>
            value && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <bdi>{value}</bdi>
                </dd>
              </div>
            ),
        )}
      </dl>
      <div class="actions">
        {pair && (
          <button type="button" onClick={() => onJump(pair.number)} title="Press p">
            {row.kind === "request" ? "Go to the response" : "Go to the request"} <span class="number">#{pair.number}</span>
          </button>
        )}
        {row.kind === "request" && !pair && <span class="note">No response in this recording</span>}
        {content && (
          <button type="button" onClick={copy}>
            Copy
          </button>
        )}
        <span role="status">{copied}</span>
      </div>
      {row.problems.length > 0 && (
        <ul class="problems" aria-label="Schema findings">
          {row.problems.map((problem) => (
            <li class={problem.isTolerated ? "tolerated" : ""}>
              <code>{plain(problem.path)}</code> <span>{plain(problem.message)}</span>
              {problem.isTolerated && <em> (tolerated)</em>}
            </li>
          ))}
        </ul>
      )}
      {content === undefined && <p class="note">Reading …</p>}
      {content === null && <p class="note">The content of this frame is not in this page.</p>}
      {content && (
        <>
          {isJson ? (
            <Json key={row.number} text={content.text} problems={row.problems} unknown={row.unknown} />
          ) : (
            <pre class="plain">
              <LongText key={row.number} text={content.text || row.preview} />
            </pre>
          )}
          {content.characters > content.text.length && (
            <p class="note">
              Cut after {number(content.text.length)} of {number(content.characters)} characters.
            </p>
          )}
        </>
      )}
    </section>
  );
}
