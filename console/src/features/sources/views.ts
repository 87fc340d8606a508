/** Views of one source, as the URL writes them. */
export const TABS = ['send', 'discards', 'compare', 'settings', 'changes'] as const;
export type Tab = (typeof TABS)[number];
