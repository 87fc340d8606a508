import { useSyncExternalStore } from 'react';
import type { Zone } from './format.ts';

/** Preferences that this browser remembers. Filters are in the URL instead. */
interface Preferences {
  readonly theme: 'light' | 'dark' | 'system';
  readonly zone: Zone;
  /** Width of the inspector in pixels. */
  readonly inspector: number;
}

const KEY = 'millrace.console';
const DEFAULTS: Preferences = { theme: 'system', zone: 'local', inspector: 440 };

let current: Preferences = { ...DEFAULTS, ...stored() };
const listeners = new Set<() => void>();

/** Reads the stored preferences. Storage may be off, or hold what another version wrote. */
function stored(): Partial<Preferences> {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(subscribe, () => current);
}

export function setPreferences(change: Partial<Preferences>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // The choice holds until the page is closed.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

/** Sets the theme on the document; without a choice it follows the system. */
export function applyTheme(): void {
  const { theme } = current;
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
