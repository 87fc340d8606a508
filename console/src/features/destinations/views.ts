/** States that the list can be narrowed to, as the URL writes them. */
export const LIST_STATES = [
  'failed',
  'failing',
  'refusing',
  'no_source',
  'healthy',
  'never_asked',
  'paused',
  'disabled',
] as const;
export type ListState = (typeof LIST_STATES)[number];

/** Views of one destination, as the URL writes them. */
export const TABS = ['health', 'deliveries', 'settings', 'replays', 'changes'] as const;
export type Tab = (typeof TABS)[number];

/**
 * Actions that a dialog asks about, as the URL writes them: a link to one asks, and does nothing by itself.
 */
export const DEEDS = ['test', 'replay', 'redeliver'] as const;
export type Deed = (typeof DEEDS)[number];
