import { useEffect, useRef } from "preact/hooks";

export interface Actions {
  next: () => unknown;
  previous: () => unknown;
  nextPage: () => unknown;
  previousPage: () => unknown;
  first: () => unknown;
  last: () => unknown;
  open: () => unknown;
  pair: () => unknown;
  problem: () => unknown;
  search: () => unknown;
  follow: () => unknown;
  help: () => unknown;
  escape: () => unknown;
  view: (index: number) => unknown;
}

const KEYS: Record<string, Exclude<keyof Actions, "view">> = {
  j: "next",
  ArrowDown: "next",
  k: "previous",
  ArrowUp: "previous",
  PageDown: "nextPage",
  PageUp: "previousPage",
  Home: "first",
  g: "first",
  End: "last",
  G: "last",
  Enter: "open",
  p: "pair",
  e: "problem",
  "/": "search",
  f: "follow",
  "?": "help",
  Escape: "escape",
};

/** What these keys do in a control, they do there. */
function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
}

function hasOwnKey(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const scrolls = target.closest(".details, .panel, .scroll, dialog") !== null;
  if (scrolls && /^(Arrow|Page|Home|End)/.test(key)) return true;
  return key === "Enter" && target.closest("button:not([role=tab][aria-selected=true])") !== null;
}

/** Call the action of a key wherever the focus is, except where keys are typed. */
export function useKeys(actions: Actions): void {
  const current = useRef(actions);
  current.current = actions;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key !== "Escape" && (isTyping(event.target) || hasOwnKey(event.target, event.key))) return;
      const tab = event.target instanceof HTMLElement && event.target.getAttribute("role") === "tab";
      if (tab && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
        const tabs = [...document.querySelectorAll<HTMLElement>("[role=tab]")];
        const next = tabs[tabs.indexOf(event.target) + (event.key === "ArrowRight" ? 1 : -1)];
        next?.click();
        next?.focus();
        return;
      }
      const action = KEYS[event.key];
      if (action) current.current[action]();
      else if (/^[1-9]$/.test(event.key)) current.current.view(Number(event.key) - 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
