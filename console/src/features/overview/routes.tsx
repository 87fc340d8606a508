import { createRoute } from '@tanstack/react-router';
import { lazyPage } from '../../app/lazy-page.ts';
import { shellRoute } from '../../app/root-route.tsx';
import { textParameters } from '../../app/search.ts';

const overviewRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/',
  // `from` and `to` are a range that was drawn in a chart; `range` is one that ends now.
  validateSearch: textParameters('range', 'from', 'to'),
  component: lazyPage(() => import('./overview-page.tsx'), 'OverviewPage'),
});

export const overviewRoutes = [overviewRoute] as const;
