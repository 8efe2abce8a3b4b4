// Text of recordings: never HTML, and nothing in it can change the order in which it is read.

import type { ComponentChildren } from "preact";

// Controls, marks that change the reading order, and characters that are not seen. Tab and line feed stay.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

function spelt(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** One line of text in which such characters are spelt out. */
export function plain(text: string): string {
  return text.replace(/[\r\n\t]+/g, " ").replace(UNSEEN, (character) => `‹${spelt(character)}›`);
}

/** Text in which such characters are spelt out and marked. */
export function Visible({ text }: { text: string }) {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    parts.push(text.slice(end, match.index));
    parts.push(<span class="unseen">{spelt(match[0])}</span>);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return <bdi>{parts}</bdi>;
}

export function seconds(value: number): string {
  return value.toFixed(3);
}

export function duration(value: number): string {
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.01 ? 2 : 1)} ms`;
  if (value < 120) return `${value.toFixed(2)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  return `${(value / 1e6).toFixed(1)} MB`;
}

export function number(value: number): string {
  return value.toLocaleString("en-US");
}
