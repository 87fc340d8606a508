import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '../../app/root-route.tsx';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/events',
  component: lazyRouteComponent(() => import('./events-page.tsx'), 'EventsPage'),
});

export const eventRoutes = [listRoute] as const;
