import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '../../app/root-route.tsx';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/live',
  component: lazyRouteComponent(() => import('./live-page.tsx'), 'LivePage'),
});

export const liveRoutes = [listRoute] as const;
