import { createRoute } from '@tanstack/react-router';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { TABS, type Tab } from './views.ts';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/sources',
  // The dialog that makes one is open.
  validateSearch: ({ new: isNew }: Record<string, unknown>): { readonly new?: true } =>
    String(isNew) === 'true' ? { new: true } : {},
  component: lazyPage(() => import('./list-page.tsx'), 'SourcesPage'),
});

const detailRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/sources/$name',
  validateSearch: ({ tab }: Record<string, unknown>): { readonly tab?: Tab } => {
    const known = TABS.find((one) => one === tab);
    return known === undefined ? {} : { tab: known };
  },
  component: lazyPage(() => import('./detail-page.tsx'), 'SourcePage'),
});

export const sourceRoutes = [listRoute, detailRoute] as const;
