import type { QueryClient } from '@tanstack/react-query';
import { createRootRouteWithContext, createRoute, Outlet, redirect } from '@tanstack/react-router';
import { sessionQuery } from '../api/session.ts';
import { lazyPage } from './lazy-page.ts';
import { AppShell, StartingShell } from './shell.tsx';
import { UnknownPage } from './unknown-page.tsx';

/** The root of the route tree. Only the sign-in page stands outside the shell. */
export const rootRoute = createRootRouteWithContext<{ readonly queryClient: QueryClient }>()({
  component: Outlet,
});

/** Every page that needs a session is a child of this route. */
export const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: 'shell',
  component: AppShell,
  pendingComponent: StartingShell,
  pendingMs: 300,
  beforeLoad: async ({ context, location }) => {
    const session = await context.queryClient.ensureQueryData(sessionQuery);
    if (session === null) throw redirect({ to: '/sign-in', search: { next: location.href } });
  },
});

export const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/sign-in',
  validateSearch: ({ next }: Record<string, unknown>): { next?: string } =>
    typeof next === 'string' && isOurs(next) ? { next } : {},
  component: lazyPage(() => import('./sign-in-page.tsx'), 'SignInPage'),
});

/** Shows the design system to developers who change it. */
export const componentsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/components',
  component: lazyPage(() => import('./components-page.tsx'), 'ComponentsPage'),
});

/** The page for an unknown address, inside the shell, so that every other page is one step away. */
export const unknownRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '$',
  component: UnknownPage,
});

/**
 * Tells whether a path leads to this site. A sign-in link must not lead elsewhere, as `//elsewhere` would.
 */
function isOurs(path: string): boolean {
  return /^\/(?![/\\])/.test(path);
}
