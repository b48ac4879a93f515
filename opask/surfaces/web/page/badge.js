// @ts-check
/** How many questions wait, where it is seen while another tab is in front: the title and the icon. */

const SIZE = 64;

/**
 * Show a count in the title and on the icon.
 * @param {number} count
 * @param {boolean} connected whether the count is known to be true
 */
export function showCount(count, connected) {
  const title = count ? `(${count}) opask` : "opask";
  const whole = connected ? title : `${title} – reconnecting`;
  if (document.title !== whole) document.title = whole;
  const link = /** @type {HTMLLinkElement | null} */ (document.querySelector("link[rel=icon]"));
  if (!link) return;
  const key = `${count} ${connected}`;
  if (link.dataset.shown === key) return;
  link.dataset.shown = key;
  link.type = "image/png";
  link.href = draw(count, connected);
}

/** @param {number} count @param {boolean} connected */
function draw(count, connected) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  const pen = canvas.getContext("2d");
  if (!pen) return "";
  pen.fillStyle = connected ? "#0f766e" : "#6b7280";
  pen.beginPath();
  pen.roundRect(4, 4, 56, 46, 10);
  pen.fill();
  pen.beginPath();
  pen.moveTo(18, 48);
  pen.lineTo(18, 61);
  pen.lineTo(34, 48);
  pen.fill();
  pen.fillStyle = "#fff";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  if (count) {
    pen.font = `bold ${count > 9 ? 32 : 38}px system-ui, sans-serif`;
    pen.fillText(count > 99 ? "99+" : String(count), SIZE / 2, 29, 50);
  } else {
    pen.font = "bold 38px system-ui, sans-serif";
    pen.fillText("?", SIZE / 2, 29);
  }
  return canvas.toDataURL("image/png");
}
