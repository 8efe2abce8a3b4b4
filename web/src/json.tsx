// Show JSON as it was sent: the text is split into tokens, never parsed into values, so that long numbers, repeated
// members and broken ends stay what they are.

import { useMemo, useState } from "preact/hooks";
import type { Problem } from "./rows";
import { number, Visible } from "./text";

const FIRST_LINES = 400;
const MORE_LINES = 2000;
const MAX_LINES = 50_000;
const STRING_CHARACTERS = 2000;
const MORE_CHARACTERS = 100_000;
const MAX_CHARACTERS = 2_000_000;
/** Deeper values have no path, and no further indent. */
const MAX_DEPTH = 60;
const NAME_CHARACTERS = 200;

type TokenKind = "name" | "string" | "number" | "word" | "mark";

interface Token {
  kind: TokenKind;
  text: string;
}

export interface Line {
  depth: number;
  path: string;
  tokens: Token[];
}

const TOKEN = /[{}[\],:]|"|[^\s{}[\],:"]+/g;

/** Return the end of the string that begins at `start`, or the end of the text if it has none. */
function endOfString(text: string, start: number): number {
  for (let quote = start; ; ) {
    quote = text.indexOf('"', quote + 1);
    if (quote < 0) return text.length;
    let escapes = 0;
    while (text[quote - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return quote + 1;
  }
}

interface Level {
  isArray: boolean;
  path: string;
  index: number;
}

/** Split JSON into lines, at most so many; each knows its path, such as `$.params.prompt[0].text`. */
export function linesOf(text: string, most: number): { lines: Line[]; isCut: boolean } {
  const lines: Line[] = [];
  const levels: Level[] = [];
  let line: Line = { depth: 0, path: "$", tokens: [] };
  let path = "$";
  let isName = false;

  const end = () => {
    if (line.tokens.length) lines.push(line);
    line = { depth: levels.length, path, tokens: [] };
  };
  const beginValue = () => {
    const level = levels.at(-1);
    if (level?.isArray) path = levels.length > MAX_DEPTH ? "" : `${level.path}[${level.index}]`;
    if (!line.tokens.length) line = { depth: levels.length, path, tokens: [] };
  };

  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(text); match; match = TOKEN.exec(text)) {
    const token = match[0];
    if (token === "{" || token === "[") {
      beginValue();
      line.tokens.push({ kind: "mark", text: token });
      const next = /\S/g;
      next.lastIndex = TOKEN.lastIndex;
      const close = next.exec(text);
      if (close && (close[0] === "}" || close[0] === "]")) {
        line.tokens.push({ kind: "mark", text: close[0] });
        TOKEN.lastIndex = close.index + 1;
        continue;
      }
      levels.push({ isArray: token === "[", path, index: 0 });
      isName = token === "{";
      end();
    } else if (token === "}" || token === "]") {
      const level = levels.pop();
      path = level?.path ?? "$";
      end();
      line = { depth: levels.length, path, tokens: [{ kind: "mark", text: token }] };
    } else if (token === ",") {
      line.tokens.push({ kind: "mark", text: "," });
      const level = levels.at(-1);
      if (level) level.index += 1;
      isName = level ? !level.isArray : false;
      end();
    } else if (token === ":") {
      line.tokens.push({ kind: "mark", text: ": " });
      isName = false;
    } else if (token === '"') {
      const close = endOfString(text, match.index);
      const string = text.slice(match.index, close);
      TOKEN.lastIndex = close;
      if (isName) {
        const name = string.slice(1, -1).slice(0, NAME_CHARACTERS);
        path = levels.length > MAX_DEPTH ? "" : `${levels.at(-1)?.path ?? "$"}.${name}`;
        line = { depth: levels.length, path, tokens: [{ kind: "name", text: string }] };
      } else {
        beginValue();
        line.tokens.push({ kind: "string", text: string });
      }
    } else {
      beginValue();
      line.tokens.push({ kind: /^[-0-9]/.test(token) ? "number" : "word", text: token });
    }
    if (lines.length >= most) return { lines, isCut: true };
  }
  end();
  return { lines, isCut: false };
}

/** A long text: its beginning, and more of it on demand. */
export function LongText({ text, first = STRING_CHARACTERS }: { text: string; first?: number }) {
  const [shown, setShown] = useState(first);
  if (text.length <= shown) return <Visible text={text} />;
  const rest = text.length - shown;
  return (
    <>
      <Visible text={text.slice(0, shown)} />
      <span class="cut">…</span>
      {shown < MAX_CHARACTERS ? (
        <button type="button" class="more" onClick={() => setShown(Math.min(shown + MORE_CHARACTERS, MAX_CHARACTERS))}>
          {rest <= MORE_CHARACTERS ? `show all ${number(text.length)} characters` : `show more of ${number(text.length)} characters`}
        </button>
      ) : (
        <span class="note">{` ${number(rest)} more characters are not shown; “Copy” has them`}</span>
      )}
    </>
  );
}

export function Json({ text, problems, unknown }: { text: string; problems: Problem[]; unknown: string[] }) {
  const [most, setMost] = useState(FIRST_LINES);
  const { lines, isCut } = useMemo(() => linesOf(text, most), [text, most]);
  const unmarked = new Set(problems);
  const unknownPaths = new Set(unknown);
  return (
    <div class="json" role="group" aria-label="JSON">
      {lines.map((line, index) => {
        const found = problems.filter((problem) => unmarked.has(problem) && problem.path === line.path);
        found.forEach((problem) => unmarked.delete(problem));
        return (
          <div key={index} class={found.length ? "line wrong" : "line"} style={{ paddingLeft: `${Math.min(line.depth, MAX_DEPTH) * 1.1 + 0.2}em` }}>
            {line.tokens.map((token) => (
              <span class={token.kind}>
                <LongText text={token.text} />
              </span>
            ))}
            {line.tokens[0]?.kind === "name" && unknownPaths.has(line.path) && <span class="finding unknown">not in the schema</span>}
            {found.map((problem) => (
              <span class={problem.isTolerated ? "finding tolerated" : "finding"}>{problem.message}</span>
            ))}
          </div>
        );
      })}
      {isCut &&
        (most < MAX_LINES ? (
          <button type="button" class="more" onClick={() => setMost(Math.min(most + MORE_LINES, MAX_LINES))}>
            show more lines
          </button>
        ) : (
          <p class="note">More than {number(MAX_LINES)} lines: the rest is not shown; “Copy” has it.</p>
        ))}
    </div>
  );
}
