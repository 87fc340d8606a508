/** States that the list can be narrowed to, as the URL writes them. */
export const LIST_STATES = ['healthy', 'failing', 'paused', 'disabled'] as const;
export type ListState = (typeof LIST_STATES)[number];

/** Views of one destination, as the URL writes them. */
export const TABS = ['health', 'deliveries', 'settings', 'replays', 'changes'] as const;
export type Tab = (typeof TABS)[number];
