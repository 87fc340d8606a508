import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '../../app/root-route.tsx';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/sources',
  component: lazyRouteComponent(() => import('./sources-page.tsx'), 'SourcesPage'),
});

export const sourceRoutes = [listRoute] as const;
