import { useEffect, useRef } from 'react';

/** A key, or two keys one after the other (`g l`). `mod` is ⌘ on a Mac and Ctrl elsewhere. */
interface Shortcut {
  readonly keys: string;
  /** Text in the list that `?` shows. */
  readonly does: string;
  readonly run: () => void;
}

const active: Shortcut[] = [];
/** Milliseconds after which a first key is forgotten. */
const PATIENCE = 1200;

/** Registers a shortcut while the component is mounted. The newest of the same keys wins. */
export function useShortcut(keys: string, does: string, run: () => void): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const shortcut = { keys, does, run: () => latest.current() };
    active.push(shortcut);
    return () => void active.splice(active.indexOf(shortcut), 1);
  }, [keys, does]);
}

/** The active shortcuts, each combination of keys once. */
export function activeShortcuts(): readonly Pick<Shortcut, 'keys' | 'does'>[] {
  return [...new Map(active.map((shortcut) => [shortcut.keys, shortcut])).values()];
}

/** Listens on the document; returns the function that stops it. */
export function listenForShortcuts(): () => void {
  let first = '';
  let firstAt = 0;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.altKey) return;
    const hasMod = event.metaKey || event.ctrlKey;
    if (!hasMod && (isTyping(event.target) || document.querySelector('dialog[open]') !== null)) return;
    const key = hasMod ? `mod+${event.key.toLowerCase()}` : event.key;
    const sequence = event.timeStamp - firstAt < PATIENCE ? `${first} ${key}` : key;
    const found =
      active.findLast(({ keys }) => keys === sequence) ?? active.findLast(({ keys }) => keys === key);
    first = key;
    firstAt = event.timeStamp;
    if (found === undefined) return;
    first = '';
    event.preventDefault();
    found.run();
  };
  document.addEventListener('keydown', onKeyDown);
  return () => document.removeEventListener('keydown', onKeyDown);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
  );
}
