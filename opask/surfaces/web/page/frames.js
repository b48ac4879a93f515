// @ts-check
/** Draws what changes often no more often than it can be seen. */

/**
 * Give a function that has another one called before the next picture is drawn: once, however often it is called until
 * then. While the page is hidden it is called by a timer, which browsers slow down.
 * @param {() => void} draw
 */
export function oncePerFrame(draw) {
  let isAsked = false;
  const call = () => {
    isAsked = false;
    draw();
  };
  return () => {
    if (isAsked) return;
    isAsked = true;
    if (document.hidden) setTimeout(call);
    else requestAnimationFrame(call);
  };
}
