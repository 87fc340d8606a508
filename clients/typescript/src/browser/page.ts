import type { Fields } from '../call.ts';

/** The part of Web Storage that is used. */
export interface KeyValueStorage {
  readonly length: number;
  key(index: number): string | null;
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** The part of a page that is used. In a worker or on a server some of it is missing, and is left out. */
interface Page {
  readonly document?: {
    readonly title: string;
    readonly referrer: string;
    readonly visibilityState: string;
    addEventListener(type: string, listener: () => void): void;
    removeEventListener(type: string, listener: () => void): void;
  };
  readonly location?: { readonly href: string; readonly pathname: string; readonly search: string };
  readonly navigator?: { readonly userAgent?: string; readonly language?: string };
  addEventListener?(type: string, listener: () => void): void;
  removeEventListener?(type: string, listener: () => void): void;
}

const page = globalThis as Page;

/** The storage of the site, unless the visitor or the browser forbids it. */
export function siteStorage(): KeyValueStorage | undefined {
  try {
    const { localStorage } = globalThis as { localStorage?: KeyValueStorage };
    localStorage?.setItem('millrace', '');
    localStorage?.removeItem('millrace');
    return localStorage;
  } catch {
    return undefined;
  }
}

/** Properties of a call of type `page`. */
export function pageProperties(): Fields {
  const { document, location } = page;
  if (document === undefined || location === undefined) return {};
  const { title, referrer } = document;
  return { path: location.pathname, referrer, search: location.search, title, url: location.href };
}

/** `context` of every call: its page and its browser. */
export function pageContext(): Fields {
  const { userAgent, language } = page.navigator ?? {};
  const campaign: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(page.location?.search ?? '')) {
    // The name of a campaign is `name`, not `campaign`, by old custom.
    if (name.startsWith('utm_')) campaign[name === 'utm_campaign' ? 'name' : name.slice(4)] = value;
  }
  return {
    page: pageProperties(),
    ...(userAgent && { userAgent }),
    ...(language && { locale: language }),
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    ...(Object.keys(campaign).length > 0 && { campaign }),
  };
}

export interface PageEvents {
  /** The page is hidden: the last moment at which a program can be sure to run. */
  leaving(): void;
  /** The network is back, or the page is. */
  back(): void;
}

/** Returns how to stop watching. */
export function watchPage({ leaving, back }: PageEvents): () => void {
  const changed = () => (page.document?.visibilityState === 'hidden' ? leaving() : back());
  page.document?.addEventListener('visibilitychange', changed);
  page.addEventListener?.('pagehide', leaving);
  page.addEventListener?.('online', back);
  return () => {
    page.document?.removeEventListener('visibilitychange', changed);
    page.removeEventListener?.('pagehide', leaving);
    page.removeEventListener?.('online', back);
  };
}
