import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '../../app/root-route.tsx';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/destinations',
  component: lazyRouteComponent(() => import('./destinations-page.tsx'), 'DestinationsPage'),
});

export const destinationRoutes = [listRoute] as const;
